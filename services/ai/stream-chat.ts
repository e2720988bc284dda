import { type Flow, flow, type Take } from "../flow.ts";
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
 * Sends a conversation and hands on the reply as it comes: text that is never empty, in whole characters. It ends
 * without an error only when the provider said that the reply is complete, and with one when the session ends. Nothing
 * is sent before the first piece is asked for.
 * @throws ServiceError VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED; while it is read PROVIDER_ERROR, UNAUTHENTICATED
 */
export function streamChat(call: ChatDeps, conversation: Conversation): Flow<Piece> {
  const route = resolveModel(call.ai, conversation);
  return flow((take) => reply(call, route, take));
}

async function reply(call: ChatDeps, route: ResolvedModel, take: Take<Piece>): Promise<void> {
  const stay = call.ai.sessions.watch(call.caller.session.id, call.signal);
  const entry = startUsage(call, stay.signal, route, true);
  const hand = (chunk: string) => {
    entry.onText(chunk);
    return take({ chunk });
  };
  try {
    const usage = await route.provider.stream(route.prompt, hand, stay.signal, entry.timings);
    if (usage) entry.setUsage(usage);
    entry.finish("completed");
  } catch (thrown) {
    throw finishFailed(call, stay.signal, entry, thrown);
  } finally {
    stay.end();
  }
}
