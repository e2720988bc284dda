import { type DestinationStream, type Logger, pino } from "pino";
import sonic from "sonic-boom";

const STDOUT = 1;
/**
 * Maximum number of bytes buffered while standard output is blocked. Further lines are dropped and
 * counted.
 */
const MAX_BUFFERED = 4 * 1024 * 1024;

/**
 * Maximum number of bytes that a worker writes at once, except for a longer line. The kernel does
 * not mix such writes of several processes into a pipe (PIPE_BUF in pipe(7)).
 */
const MAX_WORKER_WRITE = 4_096;

/**
 * Logs JSON lines to standard output, or readable lines to a terminal.
 * @param worker number of the worker that logs, included in each of its lines
 */
export function createLog(level: string, worker?: number): Logger {
  const base = worker === undefined ? null : { worker };
  const options = { level, base, timestamp: pino.stdTimeFunctions.isoTime };
  process.stderr.on("error", () => {});
  if (!process.stdout.isTTY) return pino(options, standardOutput(worker));
  return pino({
    ...options,
    transport: { target: "pino-pretty", options: { ignore: "pid,hostname", singleLine: true } },
  });
}

/**
 * Standard output with a bounded buffer. If its reader stops or exits, or the disk is full, neither
 * requests nor the exit of the process wait for it. `pino.destination` would retry forever at exit
 * (docs/decisions/0014).
 */
function standardOutput(worker: number | undefined): DestinationStream {
  let isExiting = false;
  let isFailing = false;
  let dropped = 0;
  const output = new sonic.SonicBoom({
    fd: STDOUT,
    maxLength: MAX_BUFFERED,
    ...(worker !== undefined && { maxWrite: MAX_WORKER_WRITE }),
    retryEAGAIN: () => !isExiting,
  });
  output.on("error", () => {
    isFailing = true; // the next line retries
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
    } catch {} // nobody reads the output
  });
  return {
    write(line) {
      const lines = dropped;
      if (lines > 0) output.write(droppedLine(lines));
      dropped = dropped === lines ? 0 : lines; // not reset if that line was dropped as well
      output.write(line);
    },
  };
}

const droppedLine = (lines: number) =>
  `${JSON.stringify({ level: 40, time: new Date(), lines, msg: "log lines dropped because the output was blocked" })}\n`;

/**
 * Time without a failure, in ms, after which a dependency counts as available again: it may fail
 * only some requests.
 */
const RECOVERY_MS = 3_000;

export type AvailabilityLog = ReturnType<typeof createAvailabilityLog>;

/**
 * Logs the start and end of an outage with one line each.
 * @param consequence what an outage means for operators
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

/** Minimum interval between two lines of the same count, in ms. */
const COUNT_INTERVAL_MS = 60_000;

/**
 * Logs how often something happens that clients can trigger at will: the first occurrence
 * immediately, then a count, at most one line per interval.
 * @param write logs one line with the count since the previous one
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

/** Number of lines about rejected requests that may be logged in a burst, and per second. */
const BURST_LINES = 200;
const LINES_PER_SECOND = 20;

/**
 * Limits the number of log lines that clients can trigger at will, such as those about rejected
 * requests. The rest is logged as a count.
 */
export function createLineLimit(log: Pick<Logger, "warn">) {
  const rest = createSampledLog(
    (count) => log.warn({ count }, "rejected requests not logged individually"),
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
