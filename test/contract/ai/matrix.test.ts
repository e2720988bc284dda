import { ConnectError } from "@connectrpc/connect";
import { afterAll, describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { conversationOf, eventsIn, PROVIDERS } from "../../support/ai/calls.ts";
import { startApp } from "../../support/app.ts";
import { forTest } from "../../support/suites.ts";
import { expectedOf, NAMES, NEVER_ENDING, summary } from "../../unit/ai/expectations.ts";

/** All cases but those that only a timeout ends. The tests of timeouts and retries run these. */
const CASES = NAMES.filter((name) => !NEVER_ENDING.test(name));

const app = await startApp({ env: { RATE_LIMITS: "off" } });
const { post, headers } = await app.signIn();
afterAll(async () => {
  // neither echoes, URLs nor keys of providers are logged
  const secrets = [
    "sk-echo-of-a-key",
    "internal.host",
    "simulated-key",
    ...app.providers.map(({ url }) => url),
  ];
  for (const secret of secrets)
    expect(app.logs.filter((line) => line.includes(secret))).toEqual([]);
  await app.close();
});

type Conversation = ReturnType<typeof conversationOf>;
const kindIn = (message: string, provider: string) =>
  new RegExp(`^The AI provider ${provider} failed: (.*)\\.$`).exec(message)?.[1] ?? message;

const rest = {
  async "POST /ai/stream"(conversation: Conversation) {
    const { status, body } = await post("/ai/stream", conversation);
    expect(status).toBe(200);
    const { text, error } = eventsIn(body);
    return { text, ...(error !== undefined && { failure: kindIn(error, conversation.provider) }) };
  },
  async "POST /ai/chat"(conversation: Conversation) {
    const { status, body } = await post("/ai/chat", conversation);
    if (status === 200) return { text: body.content };
    expect(body).toMatchObject({
      statusCode: 500,
      code: "PROVIDER_ERROR",
      error: "Internal Server Error",
    });
    return { text: "", failure: kindIn(body.message, conversation.provider) };
  },
};

/** A call over gRPC. Its failure is one of the provider. */
const overGrpc =
  (call: (conversation: Conversation, add: (text: string) => void) => Promise<unknown>) =>
  async (conversation: Conversation) => {
    let text = "";
    const failure = await call(conversation, (piece) => (text += piece)).then(
      () => undefined,
      ConnectError.from,
    );
    if (!failure) return { text };
    expect(failure.findDetails(FailureSchema)[0]?.reason).toBe(Reason.PROVIDER_ERROR);
    return { text, failure: kindIn(failure.rawMessage, conversation.provider) };
  };
const grpc = {
  StreamChat: overGrpc(async (conversation, add) => {
    for await (const { chunk } of app.grpc(AIService).streamChat(conversation, { headers }))
      add(chunk);
  }),
  Chat: overGrpc(async (conversation, add) => {
    add((await app.grpc(AIService).chat(conversation, { headers })).content);
  }),
};

/**
 * Every case with every provider. With TEST_FULL by every call; else by one call each, so that
 * every case meets all calls, and every provider too.
 */
const ROWS = PROVIDERS.flatMap((provider, place) =>
  CASES.map((name, index) => {
    const calls = Object.entries({ ...rest, ...grpc });
    const inTurn = calls.filter((_, i) => i === (index + place) % calls.length);
    return { provider, name, calls: process.env.TEST_FULL ? calls : inTurn };
  }),
);

describe.concurrent.each(ROWS)("AI provider $provider, case $name", ({ provider, name, calls }) => {
  const expected = expectedOf(name);
  test.concurrent.each(calls)("%s", async (call, ask) => {
    const outcome = await ask(conversationOf(`case: ${name} (${call})`, provider));
    expect(summary(outcome)).toEqual(
      summary(/stream/i.test(call) ? expected.stream : expected.chat),
    );
  });
});

test("AI: the provider simulators have more than 40 cases", () =>
  expect(CASES.length).toBeGreaterThan(40));

test("AI: a reply that takes longer than AI_TOTAL_TIMEOUT fails, streamed or not", async () => {
  const impatient = await forTest(startApp({ env: { AI_TOTAL_TIMEOUT: "1s" } }));
  const caller = await impatient.signIn();
  const ask = (path: string) => caller.post(path, conversationOf("case: pings-midway"));
  const [stream, whole] = await Promise.all(["/ai/stream", "/ai/chat"].map(ask));
  expect(kindIn(eventsIn(stream?.body).error ?? "", "provider-a")).toBe("timed out");
  expect(kindIn(whole?.body.message, "provider-a")).toBe("timed out");
});
