import type { Interceptor } from "@connectrpc/connect";
import { ConnectError } from "@connectrpc/connect";
import { type DestinationStream, type Logger, pino } from "pino";
import { settled } from "./interceptors/settled.ts";

/** JSON lines on standard output; readable ones on a terminal. */
export function createLog(level: string, destination?: DestinationStream): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  if (destination) return pino(options, destination);
  const readable = process.stdout.isTTY
    ? { transport: { target: "pino-pretty", options: { ignore: "pid,hostname" } } }
    : {};
  return pino({ ...options, ...readable });
}

/** One line per RPC: method, code, duration in ms, request id; never a message. */
export function logCalls(log: Logger): Interceptor {
  return (next) => (req) => {
    const started = performance.now();
    const line = (error?: unknown) => {
      const code = error === undefined ? "ok" : ConnectError.from(error).code;
      log.debug(
        {
          rpc: `${req.service.typeName}/${req.method.name}`,
          code,
          ms: Math.round(performance.now() - started),
          requestId: req.header.get("x-request-id") ?? undefined,
        },
        "rpc",
      );
    };
    return settled(next, req, (outcome) => line("error" in outcome ? outcome.error : undefined));
  };
}
