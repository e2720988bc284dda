import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { measureStalls } from "../../support/event-loop.ts";
import { RETRY_ON_SLOW_CI } from "../../support/retry-on-slow-ci.ts";
import { until } from "../../support/until.ts";
import { DIALECTS, promptOf, readStream, readWhole, startBench, startSuiteBench } from "./support.ts";

/** The provider connection must close within this time after the client has disconnected, without stalls of the event loop. */
const CLOSED_WITHIN_MS = 50;
const pause = () => new Promise((resolve) => setTimeout(resolve, 20));

describe.each(DIALECTS)("Provider client for %s, when the caller disconnects", RETRY_ON_SLOW_CI, async (dialect) => {
  const bench = await startSuiteBench(dialect);
  await readWhole(bench.provider, promptOf(bench, "case: plain")); // loads lazy modules

  describe.each([
    ["before the headers", "silent"],
    ["before the first token", "silent-after-headers"],
    ["in the middle", "silent-midway"],
    ["in the middle of endless text", "endless"],
    ["during the wait for another attempt", "retry-after 30000"],
  ])("%s", (_, name) => {
    test.each([
      ["stream", readStream],
      ["chat", readWhole],
    ])("frees the upstream connection of a %s", async (kind, read) => {
      const { requests } = bench.simulator;
      const before = requests.length;
      const client = new AbortController();
      const reason = new Error("The client has gone.");
      const reading = read(bench.provider, promptOf(bench, `case: ${name} (${kind})`), client.signal);
      const failed = expect(reading).rejects.toBe(reason);
      await until("the request", () => requests.length > before);
      await pause();
      const stalledMs = measureStalls();
      const leftAt = performance.now();
      client.abort(reason);
      await failed;
      const failedAt = performance.now();
      await until("the end of the connection", () => requests[before]?.closedAt !== undefined);
      const latest = Math.max(failedAt, requests[before]?.closedAt ?? 0);
      expect(latest - leftAt - stalledMs()).toBeLessThan(CLOSED_WITHIN_MS);
      expect(requests).toHaveLength(before + 1);
      expect(getEventListeners(client.signal, "abort")).toEqual([]);
    });
  });

  test("frees the connection while the stream is not read", async () => {
    const { requests } = bench.simulator;
    const before = requests.length;
    const client = new AbortController();
    const pieces = bench.provider.stream(promptOf(bench, "case: endless"), client.signal)[Symbol.asyncIterator]();
    await pieces.next();
    const stalledMs = measureStalls();
    const leftAt = performance.now();
    client.abort();
    await until("the end of the connection", () => requests[before]?.closedAt !== undefined);
    expect((requests[before]?.closedAt ?? 0) - leftAt - stalledMs()).toBeLessThan(CLOSED_WITHIN_MS);
    await pieces.return?.();
  });

  test("leaving the loop frees the connection", async () => {
    const { requests } = bench.simulator;
    const before = requests.length;
    const client = new AbortController();
    for await (const _ of bench.provider.stream(promptOf(bench, "case: endless"), client.signal)) break;
    await until("the end of the connection", () => requests[before]?.closedAt !== undefined);
    expect(getEventListeners(client.signal, "abort")).toEqual([]);
  });

  const broke = new Error("The reader broke.");
  describe.each(["endless", "json-instead"])("case %s", (name) => {
    test("an error of the reader frees the connection and is passed on", async () => {
      const { requests } = bench.simulator;
      const before = requests.length;
      const { signal } = new AbortController();
      const read = async () => {
        for await (const _ of bench.provider.stream(promptOf(bench, `case: ${name}`), signal)) throw broke;
      };
      await expect(read()).rejects.toBe(broke);
      await until("the end of the connection", () => requests[before]?.closedAt !== undefined);
      expect(getEventListeners(signal, "abort")).toEqual([]);
    });
  });

  test("a signal that has fired already sends no request", async () => {
    const before = bench.simulator.requests.length;
    const reason = new Error("The client has gone.");
    await expect(readStream(bench.provider, promptOf(bench, "case: plain"), AbortSignal.abort(reason))).rejects.toBe(
      reason,
    );
    await expect(readWhole(bench.provider, promptOf(bench, "case: plain"), AbortSignal.abort(reason))).rejects.toBe(
      reason,
    );
    await pause();
    expect(bench.simulator.requests).toHaveLength(before);
  });
});

test("Provider client: 500 streams, a third of them aborted, leave no connection or timer", async () => {
  const bench = await startBench("openai");
  await readStream(bench.provider, promptOf(bench, "case: plain"));
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  const shared = new AbortController();
  await Promise.all(
    Array.from({ length: 500 }, async (_, index) => {
      const client = index % 3 === 0 ? new AbortController() : shared;
      if (client !== shared) setTimeout(() => client.abort(new Error("The client has gone.")), index % 40);
      const name = client === shared ? "plain" : "silent-midway";
      await readStream(bench.provider, promptOf(bench, `case: ${name}`), client.signal).catch(() => {});
    }),
  );
  expect(getEventListeners(shared.signal, "abort")).toEqual([]);
  await until("the end of the connection", () =>
    bench.simulator.requests.every(({ closedAt }) => closedAt !== undefined),
  );
  await until("no timer to be left", () => timers() <= before);
  await bench.close();
});
