import { ConnectError } from "@connectrpc/connect";
import { AIService } from "../../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { eventsIn } from "../../../support/ai/calls.ts";
import type { TestApp } from "../../../support/app.ts";

export type Tokens = { inputTokens: number; outputTokens: number };
export type Account = Awaited<ReturnType<TestApp["signIn"]>>;

/** What a caller receives: the text of a reply, why it ended or what failed, and its usage. */
export type Outcome = {
  text: string;
  end?: string;
  failure?: string;
  usage?: Tokens | undefined;
};

/** Calls a model by one route or RPC. */
export type Play = (request: object, account: Account) => Promise<Outcome>;

/** The kind of a failure of a provider; any other message unchanged. */
const kindIn = (message = "") =>
  /^The AI provider \S+ failed: (.*)\.$/.exec(message)?.[1] ?? message;

/** The routes and RPCs that call a model. */
export const PLAYED_CALLS = ["POST /ai/stream", "POST /ai/chat", "StreamChat", "Chat"] as const;

export const isStreamed = (call: string) => /stream/i.test(call);

/** Characters at which readers of lines end one, beside those of SSE. */
const UNICODE_LINE_ENDS = /[\u0085\u2028\u2029]/;

/** The routes and RPCs of an app that call a model. */
export const playsOf = (app: TestApp): Record<(typeof PLAYED_CALLS)[number], Play> => ({
  async "POST /ai/stream"(request, { post }) {
    const { text: raw, status, body } = await post("/ai/stream", request);
    if (status !== 200) return { text: "", failure: body.message };
    if (UNICODE_LINE_ENDS.test(raw)) throw new Error(`An event is several lines: ${raw}`);
    const { text, error } = eventsIn(raw);
    return { text, ...(error !== undefined && { failure: kindIn(error) }) };
  },
  async "POST /ai/chat"(request, { post }) {
    const { status, body } = await post("/ai/chat", request);
    if (status !== 200) return { text: "", failure: kindIn(body.message) };
    return { text: body.content, end: body.finishReason, usage: body.usage };
  },
  async StreamChat(request, account) {
    let text = "";
    try {
      for await (const { chunk } of app.grpc(AIService).streamChat(request, account)) text += chunk;
      return { text };
    } catch (thrown) {
      return { text, failure: kindIn(ConnectError.from(thrown).rawMessage) };
    }
  },
  async Chat(request, account) {
    try {
      const { content, finishReason, usage } = await app.grpc(AIService).chat(request, account);
      const tokens = usage && { inputTokens: usage.inputTokens, outputTokens: usage.outputTokens };
      return { text: content, end: finishReason, usage: tokens };
    } catch (thrown) {
      return { text: "", failure: kindIn(ConnectError.from(thrown).rawMessage) };
    }
  },
});
