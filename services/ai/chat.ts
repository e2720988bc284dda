import { type ChatDeps, type Conversation, finishFailed, resolveModel, startUsage } from "./conversation.ts";
import type { Usage } from "./providers/provider.ts";

/** A complete reply (spec 2.7). */
export type ChatReply = { content: string; model: string; provider: string; usage?: Usage | undefined };

/**
 * Sends a conversation and waits for the complete reply.
 * @throws ServiceError VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED, PROVIDER_ERROR
 */
export async function chat(call: ChatDeps, conversation: Conversation): Promise<ChatReply> {
  const route = resolveModel(call.ai, conversation);
  const usage = startUsage(call, call.signal, route, false);
  try {
    const reply = await route.provider.complete(route.prompt, call.signal, usage);
    usage.onText(reply.content);
    if (reply.usage) usage.onUsage(reply.usage);
    usage.finish("completed");
    return { model: route.model.name, provider: route.entry.id, ...reply };
  } catch (thrown) {
    throw finishFailed(call, call.signal, usage, thrown);
  }
}
