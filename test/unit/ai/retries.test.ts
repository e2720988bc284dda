import { describe, expect, test, vi } from "vitest";
import { verbatim } from "../../../scripts/simulators/malformed-cases.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { SIMULATED_DIALECTS } from "../../../scripts/simulators/simulator.ts";
import { expectedOf } from "./expectations.ts";
import { startSuiteBench, startTestBench } from "./support.ts";

const casesWith = (attempts: number, names: string) =>
  names.split(" ").map((name) => [name, attempts] as const);
const ATTEMPTS = [
  ...casesWith(3, "overloaded broken rate-limited html-502 reset timeout silent-in-error"),
  ...casesWith(
    2,
    "overloaded-once rate-limited-once reset-once closed-once reset-after-headers-once",
  ),
  // it would fail again
  ...casesWith(
    1,
    "quota bad-key forbidden no-credit invalid not-found too-large retry-tomorrow retry-at-tomorrow",
  ),
  // the reply has begun
  ...casesWith(
    1,
    "error-event-only reset-midway error-200 html-200 malformed-event empty other-protocol",
  ),
];

describe.each(SIMULATED_DIALECTS)("Provider client: retries against %s", async (dialect) => {
  const limits = { afterOutcomeMs: 100 };
  const bench = await startSuiteBench(dialect, limits);

  /**
   * The numbers of requests of a streamed and of a whole reply, which must have the outcomes of the
   * case.
   */
  async function attemptsOf(name: string): Promise<[number, number]> {
    const bench = await startTestBench(dialect, limits); // without connections that were used before
    const { requests } = bench.simulator;
    const { stream, chat } = expectedOf(name);
    const before = requests.length;
    expect(await bench.stream(`${name} (stream)`)).toMatchObject(stream);
    const between = requests.length;
    expect(await bench.whole(`${name} (chat)`)).toMatchObject(chat);
    return [between - before, requests.length - between];
  }

  test.each(ATTEMPTS)("%s: makes %i attempts", async (name, attempts) => {
    expect(await attemptsOf(name)).toEqual([attempts, attempts]);
  });

  test("waits as long as Retry-After requires", async () => {
    const start = performance.now();
    expect(await bench.whole("retry-after 150")).toMatchObject({ text: REPLY });
    expect(performance.now() - start).toBeGreaterThanOrEqual(148);
  });

  test.each(["Infinity", "-1", "1e9", "0x7fffffff", "9".repeat(400), "soon"])(
    "ignores Retry-After: %s",
    async (wait) => {
      expect(await bench.whole(`retry-after ${wait}`)).toMatchObject({ text: REPLY });
    },
  );
});

test("Provider client: waits between attempts grow and have jitter", async () => {
  const bench = await startTestBench("openai", { backoffMs: 100 });
  const chance = vi.spyOn(Math, "random").mockReturnValue(0.99);
  const start = performance.now();
  const outcome = await bench.whole("overloaded");
  const tookMs = performance.now() - start;
  chance.mockRestore();
  expect(outcome).toMatchObject({ failure: "overloaded" });
  expect(tookMs).toBeGreaterThan(1.49 * (100 + 200) - 5);
});

test("Provider client: respects the retryDelay in an error of Google", async () => {
  const bench = await startTestBench("google");
  const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "86400s" }];
  const body = { error: { code: 429, status: "RESOURCE_EXHAUSTED", details } };
  expect(await bench.whole(verbatim({ status: 429, body }))).toMatchObject({
    failure: "rate limited",
  });
  expect(bench.simulator.requests).toHaveLength(1);
});

test("Provider client: the first-byte limit does not include waits between attempts, and does not apply to complete replies", async () => {
  const bench = await startTestBench("openai", { backoffMs: 1_200, firstByteMs: 500 });
  expect(await bench.stream("overloaded-once")).toMatchObject({ text: REPLY });
  expect(await bench.whole("retry-after 600")).toMatchObject({ text: REPLY });
});
