import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PASSING } from "../../../scripts/simulators/failing-cases.ts";
import type { SimulatedDialect } from "../../../scripts/simulators/simulator.ts";
import { CONTENTS, SHAPES } from "../../../scripts/simulators/whole-cases.ts";
import { expectedOf, NAMES, summary } from "./expectations.ts";
import { type Bench, DIALECTS, promptOf, readStream, readWhole, startBench } from "./support.ts";

/** Short limits for replies that never end, and long ones for other replies on a busy machine. */
const SHORT = { firstByteMs: 1_000, idleMs: 1_000, afterOutcomeMs: 100, totalMs: 5_000, chatBytes: 2_000_000 };
const LONG = { firstByteMs: 10_000, idleMs: 10_000, afterOutcomeMs: 100, totalMs: 20_000, chatBytes: 2_000_000 };

describe.each(DIALECTS)("Provider client, simulator cases of %s", (dialect: SimulatedDialect) => {
  let lenient: Bench;
  let strict: Bench;
  beforeAll(async () => {
    [lenient, strict] = await Promise.all([startBench(dialect, LONG), startBench(dialect, SHORT)]);
  });
  afterAll(() => Promise.all([lenient.close(), strict.close()]));

  describe.concurrent.each(NAMES)("%s", (name) => {
    const expected = expectedOf(name);
    const benchFor = ({ failure }: { failure?: string | undefined }) => (failure === "timed out" ? strict : lenient);

    test.concurrent("stream", async () => {
      const bench = benchFor(expected.stream);
      const outcome = await readStream(bench.provider, promptOf(bench, `case: ${name} (stream)`));
      expect(summary(outcome)).toEqual(summary(expected.stream));
    });
    test.concurrent("chat", async () => {
      const bench = benchFor(expected.chat);
      const outcome = await readWhole(bench.provider, promptOf(bench, `case: ${name} (chat)`));
      expect(summary(outcome)).toEqual(summary(expected.chat));
    });
  });
});

test("Provider simulator: has at least 40 cases, good replies and failures", () => {
  expect(NAMES.length).toBeGreaterThan(40);
  for (const whole of [SHAPES, CONTENTS, PASSING]) expect(Object.keys(whole).length).toBeGreaterThan(10);
});
