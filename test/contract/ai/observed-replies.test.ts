import { readFileSync } from "node:fs";
import { ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { SimulatedDialect } from "../../../scripts/simulators/simulator.ts";
import { askSdk } from "../../support/ai-sdks.ts";
import { startSuiteApp } from "../../support/app.ts";
import { forSuite } from "../../support/closing.ts";
import { type ScriptedResponse, startScriptedProvider } from "../../support/scripted-provider.ts";
import { eventsIn } from "../../support/sse-events.ts";
import { until } from "../../support/until.ts";

type Tokens = { inputTokens: number; outputTokens: number };

/** A reply that a public bug report describes, and what is right. */
type ObservedReply = {
  id: string;
  kind: string;
  source: string;
  dialect: SimulatedDialect;
  /** The route that the report is about. Every reply is played on all routes. */
  call: "/ai/chat" | "/ai/stream";
  request: { provider: string; messages: { role: string; content: string }[] };
  /** The responses to the first request, to the second, and so on. */
  upstream: ScriptedResponse[];
  expected: {
    /** The text that arrives, before a failure too. */
    text: string;
    end: "stop" | "length" | "failure";
    failureSays?: string;
    /** What the provider reports. */
    usage?: Tokens;
    /** What is estimated from the text, since the provider's counts cannot be right. */
    estimated?: Tokens;
    upstreamCalls?: number;
  };
  /** Why the official SDK makes something else of the reply. Absent where it does not. */
  sdkDiffers?: string;
};

const file = new URL("../../support/ai-cases.json", import.meta.url);
const REPLIES: ObservedReply[] = JSON.parse(readFileSync(file, "utf8"));

const provider = await forSuite(startScriptedProvider());
const app = await startSuiteApp({
  env: { ...provider.env, RATE_LIMITS: "off" },
});

type Outcome = { text: string; end?: string; failure?: string; usage?: Tokens | undefined };
type Account = Awaited<ReturnType<typeof app.signIn>>;
type Play = (request: object, account: Account) => Promise<Outcome>;

const kindIn = (message = "") =>
  /^The AI provider \S+ failed: (.*)\.$/.exec(message)?.[1] ?? message;

const PLAYS: Record<string, Play> = {
  async "POST /ai/stream"(request, { post }) {
    const { body } = await post("/ai/stream", request);
    const { text, error } = eventsIn(body);
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
};

const isStream = (call: string) => /stream/i.test(call);

/** What a call must return. A stream shows text before a failure, and no finish reason. */
function outcomeOf(call: string, { text, end, failureSays, usage }: ObservedReply["expected"]) {
  if (end === "failure") return { text: isStream(call) ? text : "", failure: failureSays };
  return isStream(call) ? { text } : { text, end, ...(usage && { usage }) };
}

describe.concurrent.each(REPLIES)("Observed reply $id", (reply) => {
  const { expected, request, upstream } = reply;

  test.concurrent.each(Object.keys(PLAYS))("%s: has the right text and end", async (call) => {
    const account = await app.signIn();
    const maxTokens = provider.add(upstream);
    const outcome = await PLAYS[call]?.({ ...request, maxTokens }, account);
    expect(outcome).toMatchObject(outcomeOf(call, expected));
    if (expected.upstreamCalls) expect(provider.callsOf(maxTokens)).toBe(expected.upstreamCalls);
    await expectLedger(account, expected);
  });

  test.concurrent("the official SDK agrees, unless the table says why it does not", async () => {
    const maxTokens = provider.add(upstream.slice(-1));
    const kind = isStream(reply.call) ? "stream" : "whole";
    const theirs = await askSdk(reply.dialect, kind, { origin: provider.url, maxTokens });
    const isFailure = expected.end === "failure";
    const agrees = theirs.failed === isFailure && (isFailure || theirs.text === expected.text);
    expect({ agrees, theirs }).toMatchObject({ agrees: reply.sdkDiffers === undefined });
  });
});

/** Expects the usage that is recorded for an account's only call. */
async function expectLedger(
  { get }: Account,
  { usage, estimated, end }: ObservedReply["expected"],
) {
  const row = await until("the usage of the call", async () => {
    const [first] = (await get("/user/export")).body.usage;
    return first && first.outcome !== "running" ? first : undefined;
  });
  expect(row.outcome === "completed").toBe(end !== "failure");
  if (usage) expect(row).toMatchObject({ ...usage, estimated: false });
  if (estimated) expect(row).toMatchObject({ ...estimated, estimated: true });
}
