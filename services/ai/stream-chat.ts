import {
  type ChatDeps,
  type Conversation,
  finishFailed,
  type ResolvedModel,
  resolveModel,
  startUsage,
} from "./conversation.ts";

/** A piece of a reply. */
type Piece = { chunk: string };

/**
 * Sends a conversation and streams the reply: pieces that are never empty, in whole characters. Ends without an error
 * only if the provider has completed the reply. Fails when the session ends. Sends nothing before the first pull.
 * @throws ServiceError VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED; while reading PROVIDER_ERROR, UNAUTHENTICATED
 */
export function streamChat(call: ChatDeps, conversation: Conversation): AsyncIterable<Piece> {
  return streamReply(call, resolveModel(call.ai, conversation));
}

async function* streamReply(call: ChatDeps, model: ResolvedModel): AsyncIterable<Piece> {
  call.signal.throwIfAborted();
  const session = call.ai.sessions.watch(call.caller.session.id, call.signal);
  const usage = startUsage(call, session.signal, model, true);
  try {
    for await (const chunk of model.provider.stream(model.prompt, session.signal, usage)) {
      usage.onText(chunk);
      yield { chunk };
    }
    usage.finish("completed");
  } catch (thrown) {
    throw finishFailed(call, session.signal, usage, thrown);
  } finally {
    usage.finish("cancelled"); // if the reader has left the loop
    session.end();
  }
}
