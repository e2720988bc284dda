import { type ChatDeps, type Conversation, finishFailed, resolveModel, startUsage } from "./conversation.ts";
import type { Usage } from "./providers/provider.ts";

/** A complete reply (spec 2.7). */
export type ChatReply = { content: string; model: string; provider: string; usage?: Usage };

/**
 * Sends a conversation and waits for the complete reply.
 * @throws ServiceError VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED, PROVIDER_ERROR
 */
export async function chat(call: ChatDeps, conversation: Conversation): Promise<ChatReply> {
  const route = resolveModel(call.ai, conversation);
  const entry = startUsage(call, call.signal, route, false);
  try {
    const { content, usage } = await route.provider.complete(route.prompt, call.signal, entry.timings);
    entry.onText(content);
    if (usage) entry.setUsage(usage);
    entry.finish("completed");
    return { content, model: route.model.name, provider: route.entry.id, ...(usage && { usage }) };
  } catch (thrown) {
    throw finishFailed(call, call.signal, entry, thrown);
  }
}
