import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { REPLY } from "../fakes/providers/play.ts";
import { type Bench, DIALECTS, promptOf, readStream, readWhole, startBench } from "./support.ts";

describe.each(DIALECTS)("attempts at %s", (dialect) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await startBench(dialect);
  });
  afterAll(() => bench.close());

  /** The number of requests that one streamed and one whole reply cost. */
  async function attemptsOf(name: string): Promise<[number, number]> {
    const { requests } = bench.simulator;
    const before = requests.length;
    await readStream(bench.provider, promptOf(bench, `case: ${name} (stream)`));
    const between = requests.length;
    await readWhole(bench.provider, promptOf(bench, `case: ${name} (chat)`));
    return [between - before, requests.length - between];
  }

  test.each(["overloaded", "broken", "rate-limited", "html-502", "reset", "timeout"])("%s: three", async (name) => {
    expect(await attemptsOf(name)).toEqual([3, 3]);
  });
  test.each(["overloaded-once", "rate-limited-once", "reset-once", "closed-once", "reset-after-headers-once"])(
    "%s: two",
    async (name) => {
      expect(await attemptsOf(name)).toEqual([2, 2]);
    },
  );
  test.each(["quota", "bad-key", "forbidden", "no-credit", "invalid", "not-found", "too-large", "retry-tomorrow"])(
    "%s: one, for it wouldn't help",
    async (name) => {
      expect(await attemptsOf(name)).toEqual([1, 1]);
    },
  );
  test.each(["error-event-only", "reset-midway", "error-200", "html-200", "malformed-event", "empty"])(
    "%s: one, for the reply had begun",
    async (name) => {
      expect(await attemptsOf(name)).toEqual([1, 1]);
    },
  );

  test("wait as long as the provider asks", async () => {
    const start = performance.now();
    expect(await readWhole(bench.provider, promptOf(bench, "case: retry-after 150"))).toMatchObject({ text: REPLY });
    expect(performance.now() - start).toBeGreaterThanOrEqual(148);
  });

  test.each(["Infinity", "-1", "1e9", "0x7fffffff", "9".repeat(400), "soon"])(
    "take a wait of %s for none",
    async (wait) => {
      expect(await readWhole(bench.provider, promptOf(bench, `case: retry-after ${wait}`))).toMatchObject({
        text: REPLY,
      });
    },
  );

  test("at one failure in ten all calls succeed with 1.15 attempts each at most", async () => {
    const before = bench.simulator.requests.length;
    const calls = Array.from({ length: 300 }, (_, index) => index + 1);
    const outcomes = await Promise.all(
      calls.map((call) => readStream(bench.provider, promptOf(bench, `case: flaky ${call}`))),
    );
    expect(outcomes.filter(({ text }) => text !== REPLY)).toEqual([]);
    expect(bench.simulator.requests.length - before).toBeGreaterThan(calls.length * 1.09);
    expect(bench.simulator.requests.length - before).toBeLessThanOrEqual(calls.length * 1.15);
  });
});
