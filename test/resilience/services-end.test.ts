import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PREFIX } from "../../scripts/simulators/script.ts";
import { signInAt } from "../support/accounts.ts";
import { conversationOf, startSuiteProvider } from "../support/ai-calls.ts";
import { freshStorage } from "../support/databases.ts";
import { type Process, startApart } from "../support/deployment.ts";
import { postJson } from "../support/http-client.ts";
import { eventsIn } from "../support/sse-events.ts";
import { times, until } from "../support/until.ts";

const CALLS = 4;
/** The limit of a shutdown, including the grace period and the delays of a busy machine. */
const SOON_MS = 10_000;

const simulator = await startSuiteProvider();

describe.each([
  ["SIGTERM", 0],
  ["SIGKILL", "SIGKILL"],
] as const)("Remote services that end by %s", (signal, code) => {
  let services: Process;
  let gateway: Process;
  beforeAll(async () => {
    const env = {
      ...(await freshStorage()),
      INTERNAL_SECRET: "between-gateway-and-services",
      SHUTDOWN_TIMEOUT: "500ms",
      ...simulator.env,
    };
    ({ services, gateway } = await startApart(env));
  });
  afterAll(async () => {
    await services.end("SIGKILL");
    await gateway.end("SIGKILL");
  });

  test("leave every call with a response: 503, or an error event and [DONE]", async () => {
    const { url } = gateway;
    const { accessToken } = await signInAt(url);
    const ask = (path: string, content: string) => postJson(url + path, conversationOf(content), accessToken);
    const before = simulator.requests.length;
    const chats = times(CALLS, () => ask("/ai/chat", "case: silent"));
    const streams = await Promise.all(times(CALLS, () => ask("/ai/stream", "case: silent-midway")));
    await until("every call to be at the provider", () => simulator.requests.length === before + 2 * CALLS);
    const endedAt = performance.now();
    expect(await services.end(signal)).toBe(code);
    for (const answer of await Promise.all(chats)) {
      expect(await answer.json()).toMatchObject({ statusCode: 503, code: "UNAVAILABLE" });
      expect(answer.headers.get("retry-after")).toBe("1");
    }
    for (const stream of streams) {
      expect(eventsIn(await stream.text())).toEqual({ text: PREFIX, error: expect.stringMatching(/try again/) });
    }
    expect(performance.now() - endedAt).toBeLessThan(SOON_MS);
  });
});
