import { createServer, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import type { ProviderBounds } from "../../../services/ai/providers/provider.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";
import { RETRY_ON_SLOW_CI } from "../../support/retry-on-slow-ci.ts";
import { listen } from "../../support/sockets.ts";
import { until } from "../../support/until.ts";
import { DIALECTS, promptOf, readStream, readWhole, startBench } from "./support.ts";

const LONG_MS = 20_000;
const SETTING_MS = 300;
const lenient = { connectMs: LONG_MS, firstByteMs: LONG_MS, idleMs: LONG_MS, totalMs: LONG_MS };

/** The timeout that ends each case. */
const TIMEOUTS: [keyof ProviderBounds, string][] = [
  ["firstByteMs", "silent"],
  ["firstByteMs", "silent-after-headers"],
  ["idleMs", "silent-midway"],
  ["idleMs", "silent-json-instead"],
  ["idleMs", "pings-midway"],
  ["totalMs", "silent"],
  ["totalMs", "pings-midway"],
];

describe.each(DIALECTS)("Provider client, timeouts of %s", RETRY_ON_SLOW_CI, (dialect) => {
  test.concurrent.each(TIMEOUTS)("%s ends %s within 250 ms of its setting", async (timeout, name) => {
    const bench = await startBench(dialect, { ...lenient, [timeout]: SETTING_MS });
    for (const read of timeout === "totalMs" ? [readStream, readWhole] : [readStream]) {
      const start = performance.now();
      expect(await read(bench.provider, promptOf(bench, `case: ${name}`))).toMatchObject({ failure: "timed out" });
      expect(performance.now() - start).toBeGreaterThanOrEqual(SETTING_MS - 5);
      expect(performance.now() - start).toBeLessThan(SETTING_MS + 250);
    }
    await bench.close();
  });
});

test.each(["silent", "silent-after-headers", "silent-midway", "pings-midway"])(
  "Provider client: only the total limit ends a complete reply that is %s",
  RETRY_ON_SLOW_CI,
  async (name) => {
    const bounds = { ...lenient, firstByteMs: SETTING_MS / 3, idleMs: SETTING_MS / 3, totalMs: SETTING_MS };
    const bench = await startBench("openai", bounds);
    const start = performance.now();
    expect(await readWhole(bench.provider, promptOf(bench, `case: ${name}`))).toMatchObject({ failure: "timed out" });
    expect(performance.now() - start).toBeGreaterThanOrEqual(SETTING_MS - 5);
    expect(performance.now() - start).toBeLessThan(SETTING_MS + 250);
    await bench.close();
  },
);

test("Provider client: a response in another protocol fails the call at once", RETRY_ON_SLOW_CI, async () => {
  const bench = await startBench("openai", lenient);
  for (const read of [readStream, readWhole]) {
    const start = performance.now();
    expect(await read(bench.provider, promptOf(bench, "case: other-protocol"))).toMatchObject({
      failure: "unreadable reply",
    });
    expect(performance.now() - start).toBeLessThan(250);
  }
  expect(bench.simulator.requests).toHaveLength(2);
  await bench.close();
});

test("Provider client: an endless stream ends at the total time limit", RETRY_ON_SLOW_CI, async () => {
  const bench = await startBench("openai", { ...lenient, totalMs: SETTING_MS });
  const start = performance.now();
  expect(await readStream(bench.provider, promptOf(bench, "case: endless"))).toMatchObject({ failure: "timed out" });
  expect(performance.now() - start).toBeLessThan(SETTING_MS + 250);
  await bench.close();
});

test.each(DIALECTS)(
  "Provider client: a reply of %s ends at its finish marker, though the connection stays open",
  async (dialect) => {
    const bench = await startBench(dialect, { ...lenient, afterOutcomeMs: 100 });
    const start = performance.now();
    expect(await readStream(bench.provider, promptOf(bench, "case: kept-open"))).toMatchObject({ text: REPLY });
    await until("the end of the stream at the provider", () => bench.simulator.requests[0]?.closedAt !== undefined);
    expect(performance.now() - start).toBeLessThan(5_000);
    await bench.close();
  },
);

test.each(DIALECTS)(
  "Provider client: consecutive streams of %s share connections",
  RETRY_ON_SLOW_CI,
  async (dialect) => {
    const bench = await startBench(dialect, lenient);
    const { requests } = bench.simulator;
    for (let i = 0; i < 5; i++) {
      expect(await readStream(bench.provider, promptOf(bench, "case: ended-later"))).toMatchObject({ text: REPLY });
      await until("the end of the stream at the provider", () => requests[i]?.closedAt !== undefined);
    }
    expect(new Set(requests.map(({ port }) => port)).size).toBeLessThan(requests.length); // the end of the last stream may arrive later
    await bench.close();
  },
);

test("Provider client: retries after a connection timeout", RETRY_ON_SLOW_CI, async () => {
  const sockets: Socket[] = [];
  const mute = createServer((socket) => sockets.push(socket));
  const catalogue = readCatalogue();
  const [entry] = catalogue.providers;
  if (!entry) throw new Error("The catalogue is empty.");
  const baseUrl = `https://127.0.0.1:${await listen(mute)}/v1`;
  const variables = { [entry.keyVariable]: "key", [entry.baseUrlVariable]: baseUrl };
  const provider = openProviders(catalogue, variables, { ...lenient, connectMs: SETTING_MS, backoffMs: 1 }).byId.get(
    entry.id,
  );
  if (!provider) throw new Error("The provider isn't open.");
  const start = performance.now();
  expect(await readWhole(provider, promptOf({ entry }, "Hello."))).toMatchObject({ failure: "unreachable" });
  expect(performance.now() - start).toBeLessThan(3 * SETTING_MS + 250);
  expect(sockets).toHaveLength(3);
  mute.close();
});

test.each(DIALECTS)("Provider client: reasoning of a %s model counts as activity", async (dialect) => {
  const bench = await startBench(dialect, { ...lenient, idleMs: SETTING_MS });
  const start = performance.now();
  expect(await readStream(bench.provider, promptOf(bench, "case: thinking-long 40"))).toMatchObject({ text: REPLY });
  expect(performance.now() - start).toBeGreaterThan(2 * SETTING_MS);
  await bench.close();
});

test("Provider client: the idle timeout does not count the time of a slow reader", async () => {
  const bench = await startBench("openai", { ...lenient, idleMs: SETTING_MS });
  const signal = new AbortController().signal;
  let pieces = 0;
  for await (const _ of bench.provider.stream(promptOf(bench, "case: bytes"), signal)) {
    if (++pieces === 1) await new Promise((resolve) => setTimeout(resolve, 2 * SETTING_MS));
  }
  expect(pieces).toBeGreaterThan(1);
  await bench.close();
});

test.each([
  ["firstByteMs", "totalMs", [readStream]],
  ["totalMs", "firstByteMs", [readStream, readWhole]],
] as const)("Provider client: a requested wait beyond %s fails at once", async (_, other, reads) => {
  const bench = await startBench("openai", { ...lenient, [other]: 2 * 86_400_000 });
  for (const read of reads) {
    const start = performance.now();
    expect(await read(bench.provider, promptOf(bench, "case: retry-tomorrow"))).toMatchObject({
      failure: "rate limited",
    });
    expect(performance.now() - start).toBeLessThan(LONG_MS / 2);
  }
  await bench.close();
});
