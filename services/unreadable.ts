import { getOption } from "@bufbuild/protobuf";
import {
  ConnectError,
  type ConnectRouter,
  createContextKey,
  createContextValues,
  createServiceImplSpec,
  type HandlerContext,
} from "@connectrpc/connect";
import type { UniversalHandler, UniversalHandlerFn } from "@connectrpc/connect/protocol";
import { policy } from "../gen/gatehouse/platform/v1/policy_pb.ts";
import { callKey } from "./call.ts";
import { unreadKey } from "./interceptors/unreadable.ts";
import { inTime } from "./patience.ts";

/** Largest message where a method names none, in bytes: as much as the gateway takes as JSON. */
const DEFAULT_BYTES = 16 * 1024;
/** What a gateway reads from path, query and cookies comes on top. */
const HEAD_BYTES = 16 * 1024;
/** As much of a body as is worth a look, in bytes. */
const BLOCK_BYTES = 16 * 1024;
/** Content types of bodies that are a message without a frame around it. */
const UNARY = /^application\/(json|proto)\b/i;
/** Headers that tell of the body, or may be what can't be read. */
const OF_BODY = [
  "content-encoding",
  "content-length",
  "grpc-encoding",
  "connect-content-encoding",
  "grpc-timeout",
  "connect-timeout-ms",
];

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

/** Ends with why a call has ended. */
const endingKey = createContextKey<AbortSignal | undefined>(undefined, { description: "ending" });

/** Keeps what tells why a call has ended, should it end before it is one. */
export function keepEnding({ values, signal }: HandlerContext): void {
  values.set(endingKey, signal);
}

/**
 * A handler as it is, except for what Connect can't decode. That it answers by itself, before any interceptor, in words
 * that quote what was sent. Here such a request is made again without its body: then caller and limits are looked at
 * first, and the refusal is ours.
 * @param requestMs how long a request may take to arrive
 */
export function readable(handler: UniversalHandler, requestMs: number): UniversalHandlerFn {
  const isConversation = handler.method.methodKind === "bidi_streaming";
  return async (req) => {
    const contextValues = req.contextValues ?? createContextValues();
    const body = isConversation ? req.body : inBlocks(inTime(req.body as AsyncIterable<Uint8Array>, requestMs));
    const res = await handler({ ...req, contextValues, body });
    const ending = contextValues.get(endingKey);
    if (!ending || contextValues.get(callKey)) return res;
    contextValues.set(unreadKey, ConnectError.from(ending.reason));
    const header = new Headers(req.header);
    for (const name of OF_BODY) header.delete(name);
    return handler({ ...req, contextValues, header, body: nothing(header.get("content-type") ?? "") });
  };
}

/**
 * A body in blocks, however small the frames that it was cut into: Connect goes over all parts of a message anew with
 * every further one.
 */
async function* inBlocks(body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  let block: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of body) {
    block.push(part);
    bytes += part.length;
    if (bytes < BLOCK_BYTES) continue;
    yield Buffer.concat(block);
    block = [];
    bytes = 0;
  }
  yield Buffer.concat(block);
}

/** An empty message of a content type. */
async function* nothing(type: string): AsyncIterable<Uint8Array> {
  const message = Buffer.from(type.includes("json") ? "{}" : "");
  if (!UNARY.test(type)) yield Buffer.from([0, 0, 0, 0, message.length]);
  yield message;
}
