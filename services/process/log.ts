import { type DestinationStream, type Logger, pino } from "pino";
import { standardOutput } from "./standard-output.ts";

/** JSON lines on standard output; readable ones on a terminal. Whoever stops reading, standard error as well, stops nothing. */
export function createLog(level: string, destination?: DestinationStream): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  if (destination) return pino(options, destination);
  process.stderr.on("error", () => {});
  if (!process.stdout.isTTY) return pino(options, standardOutput());
  return pino({ ...options, transport: { target: "pino-pretty", options: { ignore: "pid,hostname" } } });
}
