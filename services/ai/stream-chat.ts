import { type Conversation, type Needs, routeOf, settleFailure, startUsage } from "./conversation.ts";

/**
 * Sends a conversation and hands on the reply as it comes: text that is never empty, in whole characters. It ends
 * without an error only when the provider said that the reply is complete, and with one when the session ends.
 * @throws Refusal VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED, PROVIDER_ERROR, UNAUTHENTICATED
 */
export async function* streamChat(
  call: Needs,
  conversation: Conversation,
): AsyncGenerator<{ chunk: string }, void, undefined> {
  const route = routeOf(call.ai, conversation);
  const stay = call.ai.sessions.follow(call.caller.session.id, call.signal);
  const entry = startUsage(call, stay.signal, route, true);
  try {
    const reply = route.provider.stream(route.prompt, stay.signal, entry.stopwatch);
    for await (const chunk of reply) {
      entry.wrote(chunk);
      yield { chunk };
    }
    if (reply.usage) entry.report(reply.usage);
    entry.settle("completed");
  } catch (thrown) {
    throw settleFailure(call, stay.signal, entry, thrown);
  } finally {
    entry.settle("cancelled"); // the reader has left the loop
    stay.end();
  }
}
