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
    import { createLog } from "./services/platform/telemetry/log.ts";
    const log = createLog("info");
    for (let n = 0; n < ${LINES}; n++) log.info({ n, filler: "x".repeat(80) });
    process.stderr.write("written");
    ${then}`;
  return spawn(process.execPath, ["--input-type=module", "--eval", script], {
    stdio: ["ignore", stdout, "pipe"],
  });
}

const ways: [string, "pipe" | "disk", (child: ChildProcess) => void][] = [
  ["is never read", "pipe", () => {}],
  [
    "has readers that have closed",
    "pipe",
    ({ stdout, stderr }) => [stdout, stderr].map((stream) => stream?.destroy()),
  ],
  ["is on a full disk", "disk", () => {}],
];
const possible = ways.filter(([, to]) => to === "pipe" || existsSync("/dev/full"));

test.each(possible)(
  "Log without a reader: a process whose log %s keeps running and ends",
  async (_what, to, leave) => {
    const child = chatter(
      to === "disk" ? openSync("/dev/full", "w") : to,
      "setTimeout(() => process.exit(0), 200);",
    );
    leave(child);
    expect(await once(child, "exit")).toEqual([0, null]);
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
    if (lines)
      missing += lines; // each report counts the lines since the one before
    else kept.push(n);
  }
  child.kill();
  expect(kept.length).toBeGreaterThan(10_000);
  expect(kept).toEqual(kept.map((_, i) => i));
  expect(missing).toBeGreaterThanOrEqual(LINES - kept.length);
  expect(missing).toBeGreaterThan(0);
});
