import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { aiCallsOf, conversationOf, eventsIn } from "../../support/ai/calls.ts";
import { startSuiteApp, type TestApp } from "../../support/app.ts";
import { postJson } from "../../support/http/client.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

/** Clients that disconnect within three seconds, beside steady streams. */
const LEAVING = process.env.TEST_FULL ? 1_500 : 100;
const STORM_MS = 3_000;
const STEADY = 50;
/**
 * The median time in which a provider connection must close after the client has disconnected. A
 * machine may pause.
 */
const CLOSED_WITHIN_MS = 50;
const MOMENTS = 24;
/** The numbers of a steady stream, 50 a second. */
const NUMBERS = 200;

const app = await startSuiteApp({ env: { RATE_LIMITS: "off", AI_STREAMS_PER_USER: "9999" } });
const { accessToken: token } = await app.signIn();

const send = (path: string, content: string, signal?: AbortSignal) =>
  postJson(app.url + path, conversationOf(content), token, signal);
const simulator = () => app.providers[0] as TestApp["providers"][number];
const openReplies = () =>
  simulator().requests.filter(({ closedAt }) => closedAt === undefined).length;

const CALLS = Object.entries(aiCallsOf(app));
test.each(CALLS)(
  "AI: clients that abort %s at any moment leave no provider connection open",
  async (_name, call) => {
    const before = simulator().requests.length;
    const leaveAfter = async (ms: number | undefined) => {
      const client = new AbortController();
      const had = simulator().requests.length;
      const startedAt = performance.now();
      const calling = call(
        `case: silent-midway ${crypto.randomUUID()}`,
        token,
        client.signal,
      ).catch(() => {});
      if (ms === undefined)
        await until("the request at the provider", () => simulator().requests.length > had);
      else await wait(ms);
      const leftAt = performance.now();
      client.abort();
      await calling;
      await until("nothing open at the provider", () => openReplies() === 0);
      const mine = simulator().requests.slice(had);
      const closedAt = Math.max(leftAt, ...mine.map((request) => request.closedAt ?? 0));
      return { tookMs: leftAt - startedAt, openMs: closedAt - leftAt };
    };
    await leaveAfter(undefined);
    const tookMs = Math.max(
      (await leaveAfter(undefined)).tookMs,
      (await leaveAfter(undefined)).tookMs,
    );
    // in the queue, during the checks, before the headers, before and after the first text
    const openMs: number[] = [];
    for (let moment = 0; moment < MOMENTS; moment++) {
      openMs.push((await leaveAfter((2 * tookMs * moment) / MOMENTS)).openMs);
    }
    expect(openMs.sort((a, b) => a - b)[MOMENTS / 2]).toBeLessThan(CLOSED_WITHIN_MS);
    expect(simulator().requests.length).toBeGreaterThan(before + 3);
  },
);

test(`POST /ai/stream: ${LEAVING} disconnects in ${STORM_MS} ms do not affect ${STEADY} other streams`, {
  timeout: 120_000,
}, async () => {
  const clients = times(LEAVING, () => new AbortController());
  const leaving: Promise<unknown>[] = [];
  for (let i = 0; i < LEAVING; i += 100) {
    const batch = clients
      .slice(i, i + 100)
      .map(({ signal }) => send("/ai/stream", "case: silent-midway", signal));
    leaving.push(...(await Promise.all(batch)).map((answer) => answer.text().catch(() => {})));
  }
  const steady = await Promise.all(
    times(STEADY, () => send("/ai/stream", `case: counting ${NUMBERS}`)),
  );
  const bodies = Promise.all(steady.map((answer) => answer.text()));
  expect(openReplies()).toBe(LEAVING + STEADY);
  await Promise.all(
    clients.map((client, i) => wait((i * STORM_MS) / LEAVING).then(() => client.abort())),
  );
  await Promise.all(leaving);
  await until("only the steady streams at the provider", () => openReplies() <= STEADY);
  for (const body of await bodies)
    expect(eventsIn(body).text).toBe(times(NUMBERS, (i) => `${i} `).join(""));
  await until("nothing open at the provider", () => openReplies() === 0);
});
