import { expect, onTestFinished, test } from "vitest";
import { summary } from "./expectations.ts";
import { promptOf, readStream, startBench } from "./support.ts";

const MIB = 1024 * 1024;
const FRAMES = 500_000;

test("Provider client: an endless stream is cut off", async () => {
  const bench = await startBench("openai", { streamBytes: 8 * MIB });
  onTestFinished(() => bench.close());
  const outcome = await readStream(bench.provider, promptOf(bench, "case: endless"));
  expect(outcome).toMatchObject({ failure: "reply too large" });
});

test(`Provider client: reads ${FRAMES} frames of one character at once`, { timeout: 30_000 }, async () => {
  const bench = await startBench("openai");
  onTestFinished(() => bench.close());
  const outcome = await readStream(bench.provider, promptOf(bench, `case: tiny-frames ${FRAMES}`));
  expect(summary(outcome)).toEqual(summary({ text: "x".repeat(FRAMES) }));
  expect(outcome.text === "x".repeat(FRAMES)).toBe(true);
});
