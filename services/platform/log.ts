import { write, writeSync } from "node:fs";
import { type DestinationStream, type Logger, pino } from "pino";

const STDOUT = 1;
/** Most characters that are buffered while standard output is blocked. Further lines are dropped, and counted. */
const MAX_BUFFERED = 4 * 1024 * 1024;
/** Pause before a failed write is retried, in ms. */
const RETRY_MS = 10;
const EMPTY = Buffer.alloc(0);

/** JSON lines on standard output, readable ones on a terminal. */
export function createLog(level: string): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  process.stderr.on("error", () => {});
  if (!process.stdout.isTTY) return pino(options, standardOutput());
  return pino({ ...options, transport: { target: "pino-pretty", options: { ignore: "pid,hostname" } } });
}

/**
 * Standard output with a bounded buffer. While its reader has stopped or left, or the disk is full, neither requests nor
 * the end of the process wait for it. `pino.destination` would retry for ever at exit (docs/decisions/0014).
 */
function standardOutput(): DestinationStream {
  let state: "idle" | "writing" | "backing-off" = "idle";
  let pending = EMPTY;
  let buffered = "";
  let dropped = 0;

  const flush = () => {
    if (pending.length === 0) [pending, buffered] = [Buffer.from(buffered), ""];
    state = pending.length > 0 ? "writing" : "idle";
    if (state === "idle") return;
    write(STDOUT, pending, (error, written) => {
      pending = pending.subarray(written);
      if (!error) return flush();
      state = "backing-off";
      setTimeout(flush, RETRY_MS).unref();
    });
  };
  const append = (line: string) => {
    buffered += line;
    if (state === "idle") flush();
  };

  process.once("exit", () => {
    try {
      let rest = Buffer.concat([state === "backing-off" ? pending : EMPTY, Buffer.from(buffered)]);
      while (rest.length > 0) rest = rest.subarray(writeSync(STDOUT, rest));
    } catch {
      // the reader has left
    }
  });

  return {
    write(line) {
      if (buffered.length + line.length > MAX_BUFFERED) return void dropped++;
      if (dropped > 0) append(droppedLine(dropped));
      dropped = 0;
      append(line);
    },
  };
}

const droppedLine = (lines: number) =>
  `${JSON.stringify({ level: 40, time: new Date(), lines, msg: "log lines were dropped because the output was blocked" })}\n`;

/** A dependency counts as available again after this time in ms without a failure, since only some requests may fail. */
const RECOVERY_MS = 3_000;

export type AvailabilityLog = ReturnType<typeof createAvailabilityLog>;

/**
 * Logs when a dependency becomes unavailable and when it is available again: one line each, however many requests fail.
 * @param consequence what an outage means, for operators
 */
export function createAvailabilityLog(log: Logger, dependency: string, consequence = "") {
  let failingSince: number | undefined;
  let failedAt = 0;
  return {
    onFailure({ message: reason }: Error): void {
      failedAt = performance.now();
      if (failingSince === undefined) log.error({ reason }, `${dependency} unavailable${consequence}`);
      failingSince ??= failedAt;
    },
    onSuccess(): void {
      if (failingSince === undefined || performance.now() < failedAt + RECOVERY_MS) return;
      log.info({ seconds: Math.round((failedAt - failingSince) / 1_000) }, `${dependency} available again`);
      failingSince = undefined;
    },
    isAvailable: () => failingSince === undefined,
  };
}
