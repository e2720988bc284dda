import { ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { conversationOf } from "../../support/ai-calls.ts";
import { startApp, type TestApp } from "../../support/app.ts";
import { eventsIn } from "../../support/sse-events.ts";
import { expectedOf, NAMES, NEVER_ENDING, summary } from "../../unit/ai/expectations.ts";

const PROVIDERS = ["provider-a", "provider-b", "provider-c", "provider-d"];
/** All cases but those that only a timeout ends. The tests of timeouts and retries run these. */
const CASES = NAMES.filter((name) => !NEVER_ENDING.test(name));
/** Every case with one provider, by turns. Over REST, embedded, every case runs with all providers. */
const IN_TURN = CASES.map((name, index) => [PROVIDERS[index % PROVIDERS.length] ?? "", name] as const);
const ALL = PROVIDERS.flatMap((provider) => CASES.map((name) => [provider, name] as const));
const env = { RATE_LIMITS: "off" };

let app: TestApp;
let token: string;
beforeAll(async () => {
  app = await startApp({ env });
  token = (await app.signIn()).accessToken;
});
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
      const answer = await app.httpClient().post("/ai/stream", body, token);
      expect(answer.status).toBe(200);
      const { text, error } = eventsIn(answer.body);
      const failure = error === undefined ? {} : { failure: kindIn(error, provider) };
      expect(summary({ text, ...failure })).toEqual(summary(expected.stream));
    });

    test.concurrent("POST /ai/chat", async () => {
      const request = conversationOf(`case: ${name} (REST chat)`, provider);
      const { status, body } = await app.httpClient().post("/ai/chat", request, token);
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

  test.concurrent("StreamChat", async () => {
    const outcome: { text: string; failure?: string } = { text: "" };
    try {
      const request = conversationOf(`case: ${name} (gRPC stream)`, provider);
      for await (const { chunk } of app.grpc(AIService).streamChat(request, { headers })) outcome.text += chunk;
    } catch (thrown) {
      outcome.failure = failureOf(thrown, provider);
    }
    expect(summary(outcome)).toEqual(summary(expected.stream));
  });

  test.concurrent("Chat", async () => {
    const outcome: { text: string; failure?: string } = { text: "" };
    try {
      const request = conversationOf(`case: ${name} (gRPC chat)`, provider);
      outcome.text = (await app.grpc(AIService).chat(request, { headers })).content;
    } catch (thrown) {
      outcome.failure = failureOf(thrown, provider);
    }
    expect(summary(outcome)).toEqual(summary(expected.chat));
  });
});

test("AI: the provider simulators have at least 40 cases", () => expect(CASES.length).toBeGreaterThan(40));

test("AI: a reply that takes longer than AI_TOTAL_TIMEOUT fails, whole or streamed", async () => {
  const impatient = await startApp({ env: { AI_TOTAL_TIMEOUT: "1s" } });
  const { accessToken } = await impatient.signIn();
  const ask = (path: string) => impatient.httpClient().post(path, conversationOf("case: pings-midway"), accessToken);
  const [stream, whole] = await Promise.all(["/ai/stream", "/ai/chat"].map(ask));
  expect(kindIn(eventsIn(stream?.body).error ?? "", "provider-a")).toBe("timed out");
  expect(kindIn(whole?.body.message, "provider-a")).toBe("timed out");
  await impatient.close();
});

const headers = {
  get authorization() {
    return `Bearer ${token}`;
  },
};

function failureOf(thrown: unknown, provider: string): string {
  const error = ConnectError.from(thrown);
  expect(error.findDetails(FailureSchema)[0]?.reason).toBe(Reason.PROVIDER_ERROR);
  return kindIn(error.rawMessage, provider);
}
