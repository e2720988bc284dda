import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { signedInCallOf } from "../call.ts";
import type { Ai } from "./ai.ts";
import { chat } from "./chat.ts";
import { listProviders } from "./list-providers.ts";
import { listUsage } from "./list-usage.ts";
import { streamChat } from "./stream-chat.ts";

/** Messages in, messages out; every decision is made by an operation. */
export function aiHandler(ai: Ai): ServiceImpl<typeof AIService> {
  const callOf = (ctx: HandlerContext) => ({ ...signedInCallOf(ctx), ai });
  return {
    listProviders() {
      return { providers: listProviders(ai) };
    },
    async chat(req, ctx) {
      return chat(callOf(ctx), req);
    },
    async *streamChat(req, ctx) {
      for await (const chunk of streamChat(callOf(ctx), req)) yield { chunk };
    },
    async listUsage(_req, ctx) {
      const call = callOf(ctx);
      return { usage: await listUsage(call, call.caller.user.id) };
    },
    async listAllUsage(req, ctx) {
      return { usage: await listUsage(callOf(ctx), req.userId) };
    },
  };
}
