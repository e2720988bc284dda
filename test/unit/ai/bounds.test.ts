import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { SIMULATED_DIALECTS } from "../../../scripts/simulators/simulator.ts";
import { ReplyDecoder } from "../../../services/ai/providers/decode.ts";
import { isPromptTooLong } from "../../../services/ai/providers/errors.ts";
import { openaiAdapter } from "../../../services/ai/providers/openai.ts";
import {
  DEFAULT_BOUNDS,
  type ProviderBounds,
  type ReplyEvent,
} from "../../../services/ai/providers/provider.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";
import { expectedOf } from "./expectations.ts";
import { type Bench, decode, framesOf, startBench, startTestBench } from "./support.ts";

/**
 * The limits that must not end a call, and far less than them: what ends sooner was ended by the
 * limit under test.
 */
const LONG_MS = 60_000;
const SOON_MS = LONG_MS / 2;
const SETTING_MS = 300;
const lenient = { connectMs: LONG_MS, firstByteMs: LONG_MS, idleMs: LONG_MS, totalMs: LONG_MS };

/** The timeout that ends each stream. */
const TIMEOUTS: [keyof ProviderBounds, string][] = [
  ["firstByteMs", "silent"],
  ["firstByteMs", "silent-after-headers"],
  ["idleMs", "silent-midway"],
  ["idleMs", "silent-json-instead"],
  ["idleMs", "pings-midway"],
  ["totalMs", "silent"],
  ["totalMs", "pings-midway"],
  ["totalMs", "endless"],
];

/** Expects that a call ends after `SETTING_MS`, by a timeout. */
async function expectTimeout(
  bench: Bench,
  kind: "stream" | "whole",
  name: string,
  text: unknown = expect.any(String),
) {
  const start = performance.now();
  expect(await bench[kind](name)).toEqual({ text, failure: "timed out" });
  expect(performance.now() - start).toBeGreaterThanOrEqual(SETTING_MS - 5);
  expect(performance.now() - start).toBeLessThan(SOON_MS);
  expect(bench.simulator.requests).toHaveLength(1);
  await bench.close();
}

describe.each(SIMULATED_DIALECTS)("Provider client, timeouts of %s", (dialect) => {
  test.concurrent.each(TIMEOUTS)('%s ends the stream "%s"', async (timeout, name) => {
    const bench = await startBench(dialect, { ...lenient, [timeout]: SETTING_MS });
    await expectTimeout(
      bench,
      "stream",
      name,
      timeout === "totalMs" ? undefined : expectedOf(name).stream.text,
    );
  });
});

test.each([
  "silent",
  "silent-after-headers",
  "silent-midway",
  "silent-json-instead",
  "pings-midway",
  "kept-open",
])("Provider client: only the total limit ends a complete reply: %s", async (name) => {
  const bounds = {
    ...lenient,
    firstByteMs: SETTING_MS / 3,
    idleMs: SETTING_MS / 3,
    totalMs: SETTING_MS,
  };
  await expectTimeout(await startBench("openai", bounds), "whole", name);
});

/** What confirms the end. Gemini reports usage with every piece of text: it is no proof. */
const CONFIRMED_BY = [
  { dialect: "openai", limit: "afterOutcomeMs" },
  { dialect: "anthropic", limit: "afterOutcomeMs" },
  { dialect: "openai-compatible", limit: "afterOutcomeMs" },
  { dialect: "google", limit: "idleMs" },
] as const;

test.each(CONFIRMED_BY)(
  "Provider client: a reply of $dialect ends at its finish marker and after a silence of $limit",
  async ({ dialect, limit }) => {
    const bench = await startTestBench(dialect, { ...lenient, [limit]: SETTING_MS });
    const start = performance.now();
    expect(await bench.stream("kept-open")).toMatchObject({ text: REPLY });
    await until(
      "the end of the stream at the provider",
      () => bench.simulator.requests[0]?.closedAt !== undefined,
    );
    expect(performance.now() - start).toBeLessThan(SOON_MS);
  },
);

test.each(SIMULATED_DIALECTS)(
  "Provider client: consecutive streams of %s share connections",
  { retry: 2 }, // a connection may close late on a busy machine
  async (dialect) => {
    const bench = await startTestBench(dialect, lenient);
    const { requests } = bench.simulator;
    for (let i = 0; i < 5; i++) {
      expect(await bench.stream("ended-later")).toMatchObject({ text: REPLY });
      await until(
        "the end of the stream at the provider",
        () => requests[i]?.closedAt !== undefined,
      );
    }
    expect(new Set(requests.map(({ port }) => port)).size).toBeLessThan(requests.length); // the end of the last stream may arrive later
  },
);

test.each(SIMULATED_DIALECTS)(
  "Provider client: reasoning of a %s model counts as activity",
  async (dialect) => {
    const bench = await startTestBench(dialect, { ...lenient, idleMs: 2 * SETTING_MS });
    const start = performance.now();
    expect(await bench.stream("thinking-long 40")).toMatchObject({ text: REPLY });
    expect(performance.now() - start).toBeGreaterThan(2 * SETTING_MS);
  },
);

test.each([
  ["firstByteMs", "totalMs", ["stream"]],
  ["totalMs", "firstByteMs", ["stream", "whole"]],
] as const)(
  "Provider client: a requested wait beyond %s fails immediately",
  async (_, other, kinds) => {
    const bench = await startTestBench("openai", { ...lenient, [other]: 2 * 86_400_000 });
    for (const kind of kinds) {
      const start = performance.now();
      expect(await bench[kind]("retry-tomorrow")).toMatchObject({ failure: "rate limited" });
      expect(performance.now() - start).toBeLessThan(SOON_MS);
    }
  },
);

const FRAMES = 500_000;

test("Provider client: an endless stream is aborted, and closed at the provider", async () => {
  const bench = await startTestBench("openai", { streamBytes: 8_000_000 });
  const outcome = await bench.stream("endless");
  expect(outcome).toMatchObject({ failure: "reply too large" });
  await until("the end of the stream at the provider", () => bench.simulator.requests[0]?.closedAt);
});

test("Provider client: a complete reply is bounded, even if it arrives as an endless stream", async () => {
  const bench = await startTestBench("openai", { wholeReplyBytes: 1_000_000 });
  expect(await bench.whole("endless")).toMatchObject({ failure: "reply too large" });
  expect(await bench.whole("large-reply 1100000")).toMatchObject({ failure: "reply too large" });
  expect((await bench.whole("large-reply 900000")).text).toHaveLength(900_000);
  const [endless] = bench.simulator.requests;
  await until("the end of the stream at the provider", () => endless?.closedAt);
});

test("Provider client: tool calls are bounded by their number and names, not by their arguments alone", async () => {
  const decoder = new ReplyDecoder(openaiAdapter, true, { toolCalls: true });
  const many = times(100_000, (index) => ({ index, function: { name: "f" } }));
  const push = (tool_calls: object[]) =>
    decoder.push(Buffer.from(framesOf({ choices: [{ delta: { tool_calls } }] })));
  for (let at = 0; at < many.length; at += 10_000) push(many.slice(at, at + 10_000));
  expect(decoder.heldLength).toBeGreaterThan(DEFAULT_BOUNDS.wholeReplyBytes);
  const before = decoder.heldLength;
  push([{ index: 0, id: "x".repeat(100_000) }]);
  push([{ index: 100_000, function: { name: "x".repeat(100_000) } }]);
  expect(decoder.heldLength - before).toBeGreaterThan(200_000);
});

test(`Provider client: reads ${FRAMES} frames of one character in one chunk`, {
  timeout: 30_000,
}, async () => {
  const bench = await startTestBench("openai");
  const outcome = await bench.stream(`tiny-frames ${FRAMES}`);
  expect([outcome.failure, outcome.text === "x".repeat(FRAMES)]).toEqual([undefined, true]);
});

const LARGE = 8 * 1024 * 1024;

test.each([
  ["a line of points", `${".".repeat(LARGE)}x\n`],
  ["tags that do not end", `${"<".repeat(LARGE)}\n`],
])("Provider client: parses %s outside of events within seconds", (_, body) => {
  const bytes = Buffer.from(body);
  const parts = times(LARGE / 65_536, (i) => bytes.subarray(i * 65_536, (i + 1) * 65_536));
  const start = performance.now();
  expect(decode(openaiAdapter, ...parts)).toMatchObject({ text: "" });
  expect(performance.now() - start).toBeLessThan(SOON_MS);
});

const repeated = (unit: string) =>
  Array(Math.floor(LARGE / (unit.length + 1)))
    .fill(unit)
    .join();

/** Documents that take many times their size in memory. */
test.each([
  ["lists", repeated("[]")],
  ["objects", repeated("{}")],
  ["texts", repeated('"a"')],
  ["members", `{${repeated('"a":0')}}`],
])("Provider client: a document of millions of %s is unreadable", (_, items) => {
  const choice = '{"message":{"content":"Hi"},"finish_reason":"stop"}';
  const body = `{"choices":[${choice}],"other":[${items}]}`;
  expect(decode(openaiAdapter, body)).toMatchObject({ text: "", error: "unreadable reply" });
});

test("Provider client: lines outside of events that are no document are bounded as an event", () => {
  expect(decode(openaiAdapter, "x\n".repeat(100_000)).error).toBe("reply too large");
  const lines = JSON.stringify({ choices: Array(20_000).fill({ index: 1 }) }, null, 1);
  expect(decode(openaiAdapter, lines).error).toBe("broke off");
});

test("Provider client: the long message of an error is searched at once", () => {
  const message = "input token count ".repeat(60_000);
  const start = performance.now();
  expect(isPromptTooLong({ message })).toBe(false);
  expect(isPromptTooLong({ message: `${message}(9) exceeds the maximum` })).toBe(true);
  expect(performance.now() - start).toBeLessThan(SOON_MS);
});

test("Provider client: a long text of brackets and quotes is read", () => {
  const content = '[{"\\":[],'.repeat(800_000);
  const body = JSON.stringify({ choices: [{ message: { content }, finish_reason: "stop" }] });
  expect(decode(openaiAdapter, body).text).toHaveLength(content.length);
});

async function* textsOf(events: AsyncIterable<ReplyEvent>) {
  for await (const event of events) if (event.kind === "text") yield event.text;
}

/** Starts a stream with the provider simulator, and reads its first text. */
async function begin(name: string, client = new AbortController()) {
  const bench = await startTestBench("openai", { idleMs: SETTING_MS });
  const prompt = { ...bench.promptOf(name), isStream: true };
  const texts = textsOf(bench.provider(prompt, client.signal));
  const read = [(await texts.next()).value as string];
  const readOn = async () => {
    for await (const text of texts) read.push(text);
    return read;
  };
  return { bench, readOn };
}

test.each(["plain", "text-after-finish"])(
  "Provider stream: fails if it is aborted after the reply has arrived but before it is read: %s",
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
  await wait(2 * SETTING_MS);
  const resumedAt = performance.now();
  await expect(readOn()).rejects.toThrow("timed out");
  expect(performance.now() - resumedAt).toBeGreaterThanOrEqual(SETTING_MS - 5);
});

test("Provider stream, complete reply: send no request if the signal has already fired", async () => {
  const { provider, simulator, promptOf } = await startTestBench("openai");
  const reason = new Error("The client has gone.");
  for (const isStream of [true, false]) {
    const prompt = { ...promptOf("plain"), isStream };
    await expect(provider(prompt, AbortSignal.abort(reason)).next()).rejects.toBe(reason);
  }
  await wait(20);
  expect(simulator.requests).toEqual([]);
});
