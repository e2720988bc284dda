import { getOption } from "@bufbuild/protobuf";
import { type ConnectRouter, createContextValues, createServiceImplSpec } from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { policy } from "../gen/gatehouse/platform/v1/policy_pb.ts";
import { callKey } from "./call.ts";
import { TOO_LARGE, UNREADABLE } from "./interceptors/validate.ts";

/** Largest message where a method names none, in bytes: as much as the gateway takes as JSON. */
const DEFAULT_BYTES = 16 * 1024;
/** What a gateway reads from path, query and cookies comes on top. */
const HEAD_BYTES = 16 * 1024;
/** Connect's own answer to a message that is too large. */
const EXHAUSTED = 429;
const UNARY = /^application\/(json|proto)\b/;

/** Holds every method to the size of body that its policy names. */
export function bounded(router: ConnectRouter): ConnectRouter {
  const narrow: ConnectRouter = {
    handlers: router.handlers,
    service(service, impl, options) {
      for (const spec of Object.values(createServiceImplSpec(service, impl).methods)) {
        const readMaxBytes = (getOption(spec.method, policy).maxBodyBytes || DEFAULT_BYTES) + HEAD_BYTES;
        router.rpc(spec.method, spec.impl as never, { ...options, readMaxBytes });
      }
      return narrow;
    },
    rpc(...rpc) {
      router.rpc(...rpc);
      return narrow;
    },
  };
  return narrow;
}

/**
 * What Connect can't decode it answers by itself, before any interceptor, in words that quote what was sent. Here such a
 * request is made again without its body: then caller and limits are looked at first, and the refusal is ours.
 */
export function tellUnreadable(handlers: UniversalHandler[]): void {
  for (const [i, handler] of handlers.entries()) {
    const retold = async (req: UniversalServerRequest) => {
      const contextValues = req.contextValues ?? createContextValues();
      const res = await handler({ ...req, contextValues });
      const type = UNARY.exec(req.header.get("content-type") ?? "")?.[1];
      if (res.status < 400 || type === undefined || contextValues.get(callKey)) return res;
      const header = new Headers(req.header);
      for (const name of ["content-encoding", "content-length"]) header.delete(name);
      header.set(UNREADABLE, res.status === EXHAUSTED ? TOO_LARGE : "1");
      return handler({ ...req, contextValues, header, body: nothing(type) });
    };
    handlers[i] = Object.assign(retold, handler);
  }
}

async function* nothing(type: string): AsyncIterable<Uint8Array> {
  if (type === "json") yield new TextEncoder().encode("{}");
}
