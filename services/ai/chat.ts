import { type Conversation, type Needs, routeOf, settleFailure, startUsage } from "./conversation.ts";
import type { Usage } from "./providers/provider.ts";

/** A complete reply (spec 2.7). */
export type ChatReply = { content: string; model: string; provider: string; usage?: Usage };

/**
 * Sends a conversation and waits for the complete reply.
 * @throws ServiceError VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED, PROVIDER_ERROR
 */
export async function chat(call: Needs, conversation: Conversation): Promise<ChatReply> {
  const route = routeOf(call.ai, conversation);
  const entry = startUsage(call, call.signal, route, false);
  try {
    const { content, usage } = await route.provider.complete(route.prompt, call.signal, entry.stopwatch);
    entry.wrote(content);
    if (usage) entry.report(usage);
    entry.settle("completed");
    return { content, model: route.model.name, provider: route.entry.id, ...(usage && { usage }) };
  } catch (thrown) {
    throw settleFailure(call, call.signal, entry, thrown);
  }
}
