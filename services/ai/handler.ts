import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { signedInCallOf } from "../call.ts";
import { chat, streamChat } from "./chat.ts";
import { listProviders } from "./list-providers.ts";
import { listUsage } from "./list-usage.ts";

/** Messages in, messages out; every decision is made by an operation. */
export const aiHandler: ServiceImpl<typeof AIService> = {
  listProviders(_req, ctx) {
    return { providers: listProviders(signedInCallOf(ctx).ai) };
  },
  async chat(req, ctx) {
    return chat(signedInCallOf(ctx), req);
  },
  streamChat(req, ctx) {
    return streamChat(signedInCallOf(ctx), req);
  },
  async listUsage(req, ctx) {
    const call = signedInCallOf(ctx);
    return { usage: await listUsage(call, { ...spanOf(req), userId: call.caller.user.id }) };
  },
  async listAllUsage(req, ctx) {
    return { usage: await listUsage(signedInCallOf(ctx), { ...spanOf(req), userId: req.userId }) };
  },
};

type UsageSpan = { from?: Timestamp | undefined; to?: Timestamp | undefined; page?: number | undefined };
const spanOf = ({ from, to, page }: UsageSpan) => ({
  page,
  from: from && timestampDate(from),
  to: to && timestampDate(to),
});
