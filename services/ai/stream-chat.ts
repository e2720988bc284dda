import { type Conversation, type Needs, routeOf, settleFailure, startUsage } from "./conversation.ts";

/**
 * Sends a conversation and hands on the reply as it comes: text that is never empty, in whole characters. It ends
 * without an error only when the provider said that the reply is complete.
 * @throws Refusal VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED, PROVIDER_ERROR
 */
export async function* streamChat(call: Needs, conversation: Conversation): AsyncGenerator<string, void, undefined> {
  const route = routeOf(call.ai, conversation);
  const entry = startUsage(call, route);
  try {
    for await (const piece of route.provider.stream(route.prompt, call.signal)) {
      if (piece.usage) {
        entry.report(piece.usage);
      } else {
        entry.wrote(piece.text);
        yield piece.text;
      }
    }
    entry.settle("completed");
  } catch (thrown) {
    throw settleFailure(call, entry, thrown);
  } finally {
    entry.settle("cancelled"); // the reader has left the loop
  }
}
