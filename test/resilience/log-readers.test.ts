import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, openSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { expect, test } from "vitest";

const LINES = 50_000;

/** A process that logs more than pipes and its buffer hold, and then writes to standard error. */
function chatter(stdout: "pipe" | number, then: string): ChildProcess {
  const script = `
    import { createLog } from "./services/platform/log.ts";
    const log = createLog("info");
    for (let n = 0; n < ${LINES}; n++) log.info({ n, filler: "x".repeat(80) });
    process.stderr.write("written");
    ${then}`;
  return spawn(process.execPath, ["--input-type=module", "--eval", script], { stdio: ["ignore", stdout, "pipe"] });
}

const end = "setTimeout(() => process.exit(0), 200);";

test("Log without a reader: the process ends", async () => {
  expect(await once(chatter("pipe", end), "exit")).toEqual([0, null]);
});

test("Log without a reader: the process and its standard error continue after the readers have closed", async () => {
  const child = chatter("pipe", end);
  child.stdout?.destroy();
  child.stderr?.destroy();
  expect(await once(child, "exit")).toEqual([0, null]);
});

test.runIf(existsSync("/dev/full"))(
  "Log without a reader: the process continues and ends while the disk is full",
  async () => {
    expect(await once(chatter(openSync("/dev/full", "w"), end), "exit")).toEqual([0, null]);
  },
);

test("Log without a reader: buffers lines for a reader that returns, and counts the dropped ones", async () => {
  const child = chatter("pipe", 'setInterval(() => log.warn("again"), 20);');
  await once(child.stderr as Readable, "data");
  const kept: number[] = [];
  let missing = 0;
  for await (const text of createInterface(child.stdout as Readable)) {
    const { n, lines, msg } = JSON.parse(text);
    if (msg === "again") break;
    if (lines) missing = lines;
    else kept.push(n);
  }
  child.kill();
  expect(kept.length).toBeGreaterThan(10_000);
  expect(kept).toEqual(kept.map((_, i) => i));
  expect(missing).toBeGreaterThanOrEqual(LINES - kept.length);
  expect(missing).toBeGreaterThan(0);
});
