import { ConnectError, type Interceptor } from "@connectrpc/connect";
import type { Tracing } from "../platform/tracing.ts";
import { statusName } from "./log-calls.ts";
import { onComplete } from "./on-complete.ts";

/** One span per RPC, beneath the caller's; whatever the call does goes beneath it. */
export function traceCalls(tracing: Tracing): Interceptor {
  return (next) => (req) => {
    const method = `${req.service.typeName}/${req.method.name}`;
    const attributes = { "rpc.system.name": "grpc", "rpc.method": method };
    const span = tracing.start(method, "SERVER", req.header.get("traceparent"), attributes);
    req.header.set("traceparent", span.traceparent);
    return onComplete(next, req, (ending) => {
      const status = "error" in ending ? statusName(ConnectError.from(ending.error).code) : undefined;
      span.end({ "rpc.response.status_code": status ?? "OK" }, status);
    });
  };
}
