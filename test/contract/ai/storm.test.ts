import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { startApp, type TestApp } from "../../support/app.ts";
import { times, until } from "../../support/until.ts";

/** Clients that leave within three seconds, streams that go on meanwhile; `SOAK=full` asks for all on every deployment. */
const LEAVING = process.env.SOAK || process.env.TEST_MODE === "apart" ? 1_500 : 300;
const STORM_MS = 3_000;
const STEADY = 50;
/** Upstream must be closed that soon after the client has gone: in the middle of all moments, for a machine may pause. */
const CLOSED_WITHIN_MS = 50;
const MOMENTS = 24;
/** Told by a steady stream, 50 a second. */
const NUMBERS = 200;

let app: TestApp;
let token: string;
beforeAll(async () => {
  app = await startApp({ env: { RATE_LIMITS: "off", AI_STREAMS_PER_USER: "9999" } });
  token = (await app.signIn()).accessToken;
});
afterAll(() => app.close());

const saying = (content: string) => ({ provider: "provider-a", messages: [{ role: "user", content }] });
const send = (path: string, content: string, signal?: AbortSignal) =>
  fetch(app.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(saying(content)),
    ...(signal && { signal }),
  });
const simulator = () => app.providers[0] as TestApp["providers"][number];
const openReplies = () => simulator().requests.filter(({ closedAt }) => closedAt === undefined).length;

/** Ways to call, by which a client may leave. */
const doors: Record<string, (content: string, signal: AbortSignal) => Promise<unknown>> = {
  "POST /ai/stream": async (content, signal) => (await send("/ai/stream", content, signal)).text(),
  "POST /ai/chat": async (content, signal) => (await send("/ai/chat", content, signal)).text(),
  StreamChat: async (content, signal) => {
    const options = { signal, headers: { authorization: `Bearer ${token}` } };
    for await (const _ of app.grpc(AIService).streamChat(saying(content), options));
  },
  Chat: (content, signal) =>
    app.grpc(AIService).chat(saying(content), { signal, headers: { authorization: `Bearer ${token}` } }),
};

test.each(Object.keys(doors))(
  "AI: clients that disconnect at any moment of %s leave no provider connection open",
  async (name) => {
    const call = doors[name] as (typeof doors)[string];
    const before = simulator().requests.length;
    const leaveAfter = async (ms: number | undefined) => {
      const client = new AbortController();
      const had = simulator().requests.length;
      const startedAt = performance.now();
      const calling = call(`case: silent-midway ${crypto.randomUUID()}`, client.signal).catch(() => {});
      if (ms === undefined) await until("the request at the provider", () => simulator().requests.length > had);
      else await wait(ms);
      const leftAt = performance.now();
      client.abort();
      await calling;
      await until("nothing open at the provider", () => openReplies() === 0);
      const closedAt = Math.max(
        leftAt,
        ...simulator()
          .requests.slice(had)
          .map((request) => request.closedAt ?? 0),
      );
      return { tookMs: leftAt - startedAt, openMs: closedAt - leftAt };
    };
    await leaveAfter(undefined);
    const { tookMs } = await leaveAfter(undefined);
    // while it is queued, in the checks, before the headers, before the first text, after it
    const openMs: number[] = [];
    for (let moment = 0; moment < MOMENTS; moment++) {
      openMs.push((await leaveAfter((2 * tookMs * moment) / MOMENTS)).openMs);
    }
    expect(openMs.sort((a, b) => a - b)[MOMENTS / 2]).toBeLessThan(CLOSED_WITHIN_MS);
    expect(simulator().requests.length).toBeGreaterThan(before + 2);
  },
);

test(`AI: ${LEAVING} in ${STORM_MS} ms do no harm to ${STEADY} streams that go on`, { timeout: 120_000 }, async () => {
  const clients = times(LEAVING, () => new AbortController());
  const leaving: Promise<unknown>[] = [];
  for (let i = 0; i < LEAVING; i += 100) {
    const batch = clients.slice(i, i + 100).map(({ signal }) => send("/ai/stream", "case: silent-midway", signal));
    leaving.push(...(await Promise.all(batch)).map((answer) => answer.text().catch(() => {})));
  }
  const steady = await Promise.all(times(STEADY, () => follow(`case: counting ${NUMBERS}`)));
  expect(openReplies()).toBe(LEAVING + STEADY);
  await Promise.all(clients.map((client, i) => wait((i * STORM_MS) / LEAVING).then(() => client.abort())));
  await Promise.all(leaving);
  await until("the steady ones alone at the provider", () => openReplies() <= STEADY);
  const texts = await Promise.all(steady.map(({ text }) => text));
  for (const text of texts) expect(text).toBe(times(NUMBERS, (i) => `${i} `).join(""));
  await until("nothing open at the provider", () => openReplies() === 0);
});

/** Reads a stream that counts; resolves once it has begun. */
async function follow(content: string): Promise<{ text: Promise<string> }> {
  const answer = await send("/ai/stream", content);
  const read = async () =>
    [...(await answer.text()).matchAll(/^data: (\{.*\})$/gm)]
      .map(([, json]) => JSON.parse(json as string).chunk)
      .join("");
  return { text: read() };
}
