import { ConnectError } from "@connectrpc/connect";
import { afterAll, describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { conversationOf, PROVIDERS } from "../../support/ai-calls.ts";
import { startApp } from "../../support/app.ts";
import { eventsIn } from "../../support/sse-events.ts";
import { expectedOf, NAMES, NEVER_ENDING, summary } from "../../unit/ai/expectations.ts";

/** All cases but those that only a timeout ends. The tests of timeouts and retries run these. */
const CASES = NAMES.filter((name) => !NEVER_ENDING.test(name));
/** Every case with one provider, by turns. Over REST, embedded, every case runs with all providers. */
const IN_TURN = CASES.map((name, index) => [PROVIDERS[index % PROVIDERS.length] as string, name] as const);
const ALL = PROVIDERS.flatMap((provider) => CASES.map((name) => [provider, name] as const));

const app = await startApp({ env: { RATE_LIMITS: "off" } });
const { post, headers } = await app.signIn();
afterAll(async () => {
  // neither echoes, URLs nor keys of providers are logged
  const secrets = ["sk-echo-of-a-key", "internal.host", "simulated-key", ...app.providers.map(({ url }) => url)];
  for (const secret of secrets) expect(app.logs.filter((line) => line.includes(secret))).toEqual([]);
  await app.close();
});

const kindIn = (message: string, provider: string) =>
  new RegExp(`^The AI provider ${provider} failed: (.*)\\.$`).exec(message)?.[1] ?? message;

describe.concurrent.each(process.env.TEST_MODE === "embedded" ? ALL : IN_TURN)(
  "AI provider %s, case %s",
  (provider, name) => {
    const expected = expectedOf(name);

    test.concurrent("POST /ai/stream", async () => {
      const body = conversationOf(`case: ${name} (REST stream)`, provider);
      const answer = await post("/ai/stream", body);
      expect(answer.status).toBe(200);
      const { text, error } = eventsIn(answer.body);
      const failure = error === undefined ? {} : { failure: kindIn(error, provider) };
      expect(summary({ text, ...failure })).toEqual(summary(expected.stream));
    });

    test.concurrent("POST /ai/chat", async () => {
      const request = conversationOf(`case: ${name} (REST chat)`, provider);
      const { status, body } = await post("/ai/chat", request);
      if (expected.chat.failure === undefined) {
        expect(status).toBe(200);
        expect(summary({ text: body.content })).toEqual(summary(expected.chat));
      } else {
        expect(body).toMatchObject({ statusCode: 500, code: "PROVIDER_ERROR", error: "Internal Server Error" });
        expect(kindIn(body.message, provider)).toBe(expected.chat.failure);
      }
    });
  },
);

describe.concurrent.each(IN_TURN)("AI provider %s, case %s", (provider, name) => {
  const expected = expectedOf(name);

  /** What a call has received. Its failure is one of the provider. */
  async function outcomeOf(call: (add: (text: string) => void) => Promise<unknown>) {
    let text = "";
    const failure = await call((piece) => (text += piece)).then(
      () => ({}),
      (thrown) => {
        const error = ConnectError.from(thrown);
        expect(error.findDetails(FailureSchema)[0]?.reason).toBe(Reason.PROVIDER_ERROR);
        return { failure: kindIn(error.rawMessage, provider) };
      },
    );
    return summary({ text, ...failure });
  }

  test.concurrent("StreamChat", async () => {
    const request = conversationOf(`case: ${name} (gRPC stream)`, provider);
    const outcome = await outcomeOf(async (add) => {
      for await (const { chunk } of app.grpc(AIService).streamChat(request, { headers })) add(chunk);
    });
    expect(outcome).toEqual(summary(expected.stream));
  });

  test.concurrent("Chat", async () => {
    const request = conversationOf(`case: ${name} (gRPC chat)`, provider);
    const outcome = await outcomeOf(async (add) => add((await app.grpc(AIService).chat(request, { headers })).content));
    expect(outcome).toEqual(summary(expected.chat));
  });
});

test("AI: the provider simulators have at least 40 cases", () => expect(CASES.length).toBeGreaterThan(40));

test("AI: a reply that takes longer than AI_TOTAL_TIMEOUT fails, whole or streamed", async () => {
  const impatient = await startApp({ env: { AI_TOTAL_TIMEOUT: "1s" } });
  const caller = await impatient.signIn();
  const ask = (path: string) => caller.post(path, conversationOf("case: pings-midway"));
  const [stream, whole] = await Promise.all(["/ai/stream", "/ai/chat"].map(ask));
  expect(kindIn(eventsIn(stream?.body).error ?? "", "provider-a")).toBe("timed out");
  expect(kindIn(whole?.body.message, "provider-a")).toBe("timed out");
  await impatient.close();
});
