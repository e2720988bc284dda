import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { times, until } from "../../support/until.ts";
import { startTestBench } from "./support.ts";

const IDLE_MS = 300;

/** Starts a stream with the provider simulator, and reads its first piece. */
async function begin(name: string, client = new AbortController()) {
  const bench = await startTestBench("openai", { idleMs: IDLE_MS });
  const prompt = { ...bench.promptOf(name), isStream: true };
  const pieces = bench.provider(prompt, client.signal, { decodingMs: 0 });
  const read = [(await pieces.next()).value as string];
  const readOn = async () => {
    for await (const piece of { [Symbol.asyncIterator]: () => pieces }) read.push(piece);
    return read;
  };
  return { bench, readOn };
}

test.each(["plain", "text-after-finish"])(
  "Provider stream: fails if it is aborted after the reply has arrived and before it is read: %s",
  async (name) => {
    const client = new AbortController();
    const { bench, readOn } = await begin(name, client);
    await until("the end of the reply", () => bench.simulator.requests[0]?.closedAt);
    const reason = new Error("The session has ended.");
    client.abort(reason);
    await expect(readOn()).rejects.toBe(reason);
  },
);

test("Provider stream: joins text that arrives while the reader is busy", async () => {
  const { readOn } = await begin("counting 20"); // in 400 ms
  await wait(1_000);
  const pieces = await readOn();
  expect(pieces.join("")).toBe(times(20, (i) => `${i} `).join(""));
  expect(pieces.length).toBeLessThan(5);
});

test("Provider stream: the idle timer pauses while the reader is busy", async () => {
  const { readOn } = await begin("silent-midway");
  await wait(2 * IDLE_MS);
  const resumedAt = performance.now();
  await expect(readOn()).rejects.toThrow("timed out");
  expect(performance.now() - resumedAt).toBeGreaterThanOrEqual(IDLE_MS - 5);
});

test("Provider stream, complete reply: a signal that has fired already sends no request", async () => {
  const { provider, simulator, promptOf } = await startTestBench("openai");
  const reason = new Error("The client has gone.");
  for (const isStream of [true, false]) {
    const prompt = { ...promptOf("plain"), isStream };
    await expect(provider(prompt, AbortSignal.abort(reason), { decodingMs: 0 }).next()).rejects.toBe(reason);
  }
  await wait(20);
  expect(simulator.requests).toEqual([]);
});
