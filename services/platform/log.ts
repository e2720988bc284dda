import { type DestinationStream, type Logger, pino } from "pino";
import { standardOutput } from "./log-destination.ts";

/** JSON lines on standard output, readable ones on a terminal. A reader that stops or leaves never blocks the process. */
export function createLog(level: string, destination?: DestinationStream): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  if (destination) return pino(options, destination);
  process.stderr.on("error", () => {});
  if (!process.stdout.isTTY) return pino(options, standardOutput());
  return pino({ ...options, transport: { target: "pino-pretty", options: { ignore: "pid,hostname" } } });
}
