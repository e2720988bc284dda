// Loggers: a silent one, and one whose lines a test reads.

import { pino } from "pino";

/** A log that writes nothing. */
export const silent = pino({ level: "silent" });

/** A log whose lines a test reads. */
export function captureLog(options: Parameters<typeof pino>[0] = {}) {
  const lines: string[] = [];
  return {
    lines,
    log: pino(options as object, { write: (line: string) => void lines.push(line) }),
  };
}
