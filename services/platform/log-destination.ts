import { write, writeSync } from "node:fs";
import type { DestinationStream } from "pino";

const STANDARD_OUTPUT = 1;
/** Most characters that are buffered while standard output is blocked; further lines are dropped, and counted. */
const MOST_WAITING = 4 * 1024 * 1024;
/** Pause before a failed write is tried again, in ms. */
const PAUSE_MS = 10;
const NOTHING = Buffer.alloc(0);

/**
 * Where the log goes. While its reader has stopped or left, or the disk is full, lines are buffered: neither requests nor
 * the end of the process wait for them.
 */
export function standardOutput(): DestinationStream {
  let state: "idle" | "writing" | "pausing" = "idle";
  let inHand = NOTHING;
  let waiting = "";
  let leftOut = 0;

  const writeOn = () => {
    if (inHand.length === 0) [inHand, waiting] = [Buffer.from(waiting), ""];
    state = inHand.length > 0 ? "writing" : "idle";
    if (state === "idle") return;
    write(STANDARD_OUTPUT, inHand, (error, written) => {
      inHand = inHand.subarray(written);
      if (!error) return writeOn();
      state = "pausing";
      setTimeout(writeOn, PAUSE_MS).unref();
    });
  };
  const add = (line: string) => {
    waiting += line;
    if (state === "idle") writeOn();
  };

  process.once("exit", () => {
    try {
      let rest = Buffer.concat([state === "pausing" ? inHand : NOTHING, Buffer.from(waiting)]);
      while (rest.length > 0) rest = rest.subarray(writeSync(STANDARD_OUTPUT, rest));
    } catch {
      // the reader is gone
    }
  });

  return {
    write(line) {
      if (waiting.length + line.length > MOST_WAITING) {
        leftOut++;
        return;
      }
      if (leftOut > 0) add(gap(leftOut));
      leftOut = 0;
      add(line);
    },
  };
}

function gap(lines: number): string {
  const time = new Date().toISOString();
  return `${JSON.stringify({ level: 40, time, lines, msg: "lines are missing from the log here: nobody took them" })}\n`;
}
