import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { Metrics } from "../metrics.ts";
import { onComplete } from "./on-complete.ts";

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
    return onComplete(next, req, (outcome) => line("error" in outcome ? outcome.error : undefined));
  };
}

/** A code as gRPC spells it: RESOURCE_EXHAUSTED. */
export const statusName = (code: Code) => Code[code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
