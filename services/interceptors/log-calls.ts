import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { Metrics } from "../metrics.ts";
import { ServiceError, toConnectError } from "../platform/errors.ts";
import { onComplete } from "./on-complete.ts";

type Report = (method: DescMethod, requestId: string | undefined, error?: unknown, startedAt?: number) => void;

/** One line and one measurement per RPC: method, code, duration, request id; never a message. */
function reportCalls(log: Logger, { rpcSeconds }: Pick<Metrics, "rpcSeconds">): Report {
  return (method, requestId, error, startedAt = performance.now()) => {
    const rpc = `${method.parent.typeName}/${method.name}`;
    const code = error === undefined ? undefined : codeOf(error);
    const ms = performance.now() - startedAt;
    const status = code === undefined ? "OK" : statusName(code);
    rpcSeconds.observe({ rpc_method: rpc, rpc_response_status_code: status }, ms / 1000);
    if (log.isLevelEnabled("debug")) log.debug({ rpc, code: code ?? "ok", ms: Math.round(ms), requestId }, "rpc");
  };
}

const codeOf = (error: unknown) =>
  error instanceof ServiceError ? toConnectError(error).code : ConnectError.from(error).code;

export function logCalls(log: Logger, metrics: Pick<Metrics, "rpcSeconds">): Interceptor {
  const report = reportCalls(log, metrics);
  return (next) => (req) => {
    const startedAt = performance.now();
    return onComplete(next, req, (outcome) => {
      const error = "error" in outcome ? outcome.error : undefined;
      report(req.method, req.header.get("x-request-id") ?? undefined, error, startedAt);
    });
  };
}

/** Reports calls that a port refuses before they reach the interceptors; what is unexpected, as an error. */
export function reportRefused(log: Logger, metrics: Pick<Metrics, "rpcSeconds">): OnRefused {
  const report = reportCalls(log, metrics);
  return (method, requestId, error) => {
    if (!(error instanceof ServiceError)) log.error({ err: error, rpc: method.name, requestId }, "unexpected failure");
    report(method, requestId, error);
  };
}

export type OnRefused = (method: DescMethod, requestId: string, error: unknown) => void;

/** A code as gRPC spells it: RESOURCE_EXHAUSTED. */
export const statusName = (code: Code) => Code[code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
