import type { Interceptor } from "@connectrpc/connect";
import { Code, ConnectError } from "@connectrpc/connect";
import { type DestinationStream, type Logger, pino } from "pino";
import { settled } from "./interceptors/settled.ts";
import type { Metrics } from "./metrics.ts";
import { standardOutput } from "./standard-output.ts";

/** JSON lines on standard output; readable ones on a terminal. Whoever stops reading, standard error as well, stops nothing. */
export function createLog(level: string, destination?: DestinationStream): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  if (destination) return pino(options, destination);
  process.stderr.on("error", () => {});
  if (!process.stdout.isTTY) return pino(options, standardOutput());
  return pino({ ...options, transport: { target: "pino-pretty", options: { ignore: "pid,hostname" } } });
}

/** One line and one measurement per RPC: method, code, duration, request id; never a message. */
export function logCalls(log: Logger, { rpcSeconds }: Pick<Metrics, "rpcSeconds">): Interceptor {
  return (next) => (req) => {
    const started = performance.now();
    const rpc = `${req.service.typeName}/${req.method.name}`;
    const line = (error?: unknown) => {
      const code = error === undefined ? undefined : ConnectError.from(error).code;
      const ms = performance.now() - started;
      const status = code === undefined ? "OK" : statusName(code);
      rpcSeconds.observe({ rpc_method: rpc, rpc_response_status_code: status }, ms / 1000);
      if (!log.isLevelEnabled("debug")) return;
      const requestId = req.header.get("x-request-id") ?? undefined;
      log.debug({ rpc, code: code ?? "ok", ms: Math.round(ms), requestId }, "rpc");
    };
    return settled(next, req, (outcome) => line("error" in outcome ? outcome.error : undefined));
  };
}

/** A code as gRPC spells it: RESOURCE_EXHAUSTED. */
export const statusName = (code: Code) => Code[code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
