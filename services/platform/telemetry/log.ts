import { type DestinationStream, type Logger, pino } from "pino";
import sonic from "sonic-boom";

const STDOUT = 1;
/**
 * Most bytes that are buffered while standard output is blocked. Further lines are dropped, and
 * counted.
 */
const MAX_BUFFERED = 4 * 1024 * 1024;

/** JSON lines on standard output, readable ones on a terminal. */
export function createLog(level: string): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  process.stderr.on("error", () => {});
  if (!process.stdout.isTTY) return pino(options, standardOutput());
  return pino({
    ...options,
    transport: { target: "pino-pretty", options: { ignore: "pid,hostname" } },
  });
}

/**
 * Standard output with a bounded buffer. While its reader has stopped or left, or the disk is full,
 * neither requests nor the end of the process wait for it. `pino.destination` would retry for ever
 * at exit (docs/decisions/0014).
 */
function standardOutput(): DestinationStream {
  let isExiting = false;
  let isFailing = false;
  let dropped = 0;
  const output = new sonic.SonicBoom({
    fd: STDOUT,
    maxLength: MAX_BUFFERED,
    retryEAGAIN: () => !isExiting,
  });
  output.on("error", () => {
    isFailing = true; // the next line tries again
  });
  output.on("write", () => {
    isFailing = false;
  });
  output.on("drop", () => {
    dropped++;
  });
  process.once("exit", () => {
    isExiting = true;
    try {
      if (!isFailing) output.flushSync();
    } catch {} // the reader has stopped
  });
  return {
    write(line) {
      const lines = dropped;
      if (lines > 0) output.write(droppedLine(lines));
      dropped = dropped === lines ? 0 : lines; // that line may be dropped itself
      output.write(line);
    },
  };
}

const droppedLine = (lines: number) =>
  `${JSON.stringify({ level: 40, time: new Date(), lines, msg: "log lines were dropped because the output was blocked" })}\n`;

/**
 * A dependency counts as available again after this time in ms without a failure, since only some
 * requests may fail.
 */
const RECOVERY_MS = 3_000;

export type AvailabilityLog = ReturnType<typeof createAvailabilityLog>;

/**
 * Logs the start and the end of an outage, one line each.
 * @param consequence of an outage, for operators
 */
export function createAvailabilityLog(log: Logger, dependency: string, consequence = "") {
  let failingSince: number | undefined;
  let failedAt = 0;
  return {
    onFailure({ message: reason }: Error): void {
      failedAt = performance.now();
      if (failingSince === undefined)
        log.error({ reason }, `${dependency} unavailable${consequence}`);
      failingSince ??= failedAt;
    },
    onSuccess(): void {
      if (failingSince === undefined || performance.now() < failedAt + RECOVERY_MS) return;
      log.info(
        { seconds: Math.round((failedAt - failingSince) / 1_000) },
        `${dependency} available again`,
      );
      failingSince = undefined;
    },
    isAvailable: () => failingSince === undefined,
  };
}

/** Interval between two lines of a count, in ms. */
const COUNT_INTERVAL_MS = 60_000;

/**
 * Reports how often something happens that clients can cause at will: the first time at once, then
 * as a count, at most one line per interval.
 * @param write one line, with the number since the last one
 */
export function createSampledLog(write: (count: number) => void, intervalMs = COUNT_INTERVAL_MS) {
  let count = 0;
  let isQuiet = false;
  const report = () => {
    isQuiet = count > 0;
    if (!isQuiet) return;
    write(count);
    count = 0;
    setTimeout(report, intervalMs).unref();
  };
  return {
    add(): void {
      count++;
      if (!isQuiet) report();
    },
  };
}

/** Lines about refused requests that are logged in a burst, and per second. */
const BURST_LINES = 200;
const LINES_PER_SECOND = 20;

/**
 * Limits the lines that clients can cause at will, such as those about refused requests. The others
 * are reported as a count.
 */
export function createLineLimit(log: Pick<Logger, "warn">) {
  const rest = createSampledLog(
    (count) => log.warn({ count }, "refused requests were not logged one by one"),
    10_000,
  );
  let lines = BURST_LINES;
  let countedAt = performance.now();
  /** Whether one more line may be logged. */
  return (): boolean => {
    const now = performance.now();
    lines = Math.min(BURST_LINES, lines + ((now - countedAt) / 1_000) * LINES_PER_SECOND);
    countedAt = now;
    if (lines < 1) {
      rest.add();
      return false;
    }
    lines--;
    return true;
  };
}
