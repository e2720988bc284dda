import { describe, expect, test } from "vitest";
import { untilStill } from "../../support/until.ts";
import { summary } from "./expectations.ts";
import { DIALECTS, promptOf, readStream, readWhole, startBench, startSuiteBench } from "./support.ts";

const MIB = 1024 * 1024;
/** The largest buffers of the kernel for one loopback connection, both ends together. */
const KERNEL_BYTES = 12 * MIB;

const FRAMES = 500_000;

describe.each(DIALECTS)("Provider client: memory limits of %s replies", async (dialect) => {
  const bench = await startSuiteBench(dialect, { chatBytes: 4 * MIB, streamBytes: 8 * MIB });

  test("a stopped reader pauses the provider", async () => {
    const before = bench.simulator.requests.length;
    const client = new AbortController();
    const pieces = bench.provider.stream(promptOf(bench, "case: endless"), client.signal)[Symbol.asyncIterator]();
    await pieces.next();
    const sent = () => bench.simulator.requests[before]?.sentBytes ?? 0;
    await untilStill("the provider to be paused", sent);
    expect(sent()).toBeLessThan(KERNEL_BYTES);
    client.abort();
    await pieces.return?.();
  });

  test("an endless stream is cut off", async () => {
    expect(await readStream(bench.provider, promptOf(bench, "case: endless"))).toMatchObject({
      failure: "reply too large",
    });
  });

  test("an event longer than 1 MiB is cut off", async () => {
    const before = bench.simulator.requests.length;
    expect(await readStream(bench.provider, promptOf(bench, "case: endless-event"))).toMatchObject({
      failure: "reply too large",
    });
    expect(bench.simulator.requests[before]?.sentBytes).toBeLessThan(MIB + KERNEL_BYTES);
  });

  test("a complete reply of 1 MB is accepted, one of 100 MB refused", async () => {
    const good = await readWhole(bench.provider, promptOf(bench, "case: large-reply 1000000"));
    expect(good.text).toBe("x".repeat(1_000_000));
    const before = bench.simulator.requests.length;
    expect(await readWhole(bench.provider, promptOf(bench, "case: large-reply 100000000"))).toMatchObject({
      failure: "reply too large",
    });
    expect(bench.simulator.requests[before]?.sentBytes).toBeLessThan(4 * MIB + KERNEL_BYTES);
  });
});

test(`Provider client: reads ${FRAMES} frames of one character at once`, { timeout: 30_000 }, async () => {
  const bench = await startBench("openai");
  const outcome = await readStream(bench.provider, promptOf(bench, `case: tiny-frames ${FRAMES}`));
  expect(summary(outcome)).toEqual(summary({ text: "x".repeat(FRAMES) }));
  expect(outcome.text === "x".repeat(FRAMES)).toBe(true);
  await bench.close();
});
