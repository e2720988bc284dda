import { type DescMethod, getOption } from "@bufbuild/protobuf";
import {
  ConnectError,
  type ConnectRouter,
  createContextKey,
  createContextValues,
  createServiceImplSpec,
  type HandlerContext,
} from "@connectrpc/connect";
import type { UniversalHandler, UniversalHandlerFn } from "@connectrpc/connect/protocol";
import { policy } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { callKey } from "../call.ts";
import { unreadKey } from "../interceptors/validate.ts";
import { maxBodyBytes } from "../platform/policy.ts";
import { readBody } from "./body.ts";
import { ENCODINGS, growthOf } from "./compressed.ts";
import { placeKey } from "./places.ts";

/** What a gateway reads from path, query and cookies comes on top. */
const HEAD_BYTES = 16 * 1024;
/** Content types of bodies that are a message without a frame around it. */
const UNARY = /^application\/(json|proto)\b/i;
/** Headers that describe the body, or may themselves be what can't be read. */
const OF_BODY = [...ENCODINGS, "content-length", "grpc-timeout", "connect-timeout-ms"];

const maxBytesOf = (method: DescMethod) => maxBodyBytes(getOption(method, policy)) + HEAD_BYTES;

/** Holds every method to the size of body that its policy names. */
export function bounded(router: ConnectRouter): ConnectRouter {
  const narrow: ConnectRouter = {
    handlers: router.handlers,
    service(service, impl, options) {
      for (const spec of Object.values(createServiceImplSpec(service, impl).methods)) {
        router.rpc(spec.method, spec.impl as never, { ...options, readMaxBytes: maxBytesOf(spec.method) });
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

/** Keeps the signal that says why a request has ended, in case it ends before a call is opened. */
export function keepEnding({ values, signal }: HandlerContext): void {
  values.set(endingKey, signal);
}

/**
 * The same handler, except for requests that can't be read. Connect refuses those itself, before any interceptor, in words
 * that quote what was sent. Here such a request is run again without its body: caller and limits are checked first, and
 * the refusal is ours.
 */
export function readable(handler: UniversalHandler, requestMs: number): UniversalHandlerFn {
  if (handler.method.methodKind === "bidi_streaming") return handler;
  const most = maxBytesOf(handler.method);
  return async (req) => {
    const contextValues = req.contextValues ?? createContextValues();
    const refuse = (found: ConnectError) => {
      contextValues.set(unreadKey, found);
      const header = new Headers(req.header);
      for (const name of OF_BODY) header.delete(name);
      return handler({ ...req, contextValues, header, body: nothing(header.get("content-type") ?? "") });
    };
    const place = contextValues.get(placeKey);
    const parts = req.body as AsyncIterable<Uint8Array>;
    const bodies: Uint8Array[] = [];
    try {
      bodies.push(await readBody({ parts, most, growth: growthOf(req.header), place }, requestMs));
    } catch (thrown) {
      if (!(thrown instanceof ConnectError)) throw thrown; // by a client who has gone: nobody is left to be told
      return refuse(thrown);
    }
    const res = await handler({ ...req, contextValues, body: handedOver(bodies) });
    const ending = contextValues.get(endingKey);
    return !ending || contextValues.get(callKey) ? res : refuse(ConnectError.from(ending.reason));
  };
}

/** Keeps nothing of what it has handed over: a provider may take minutes. */
async function* handedOver(bodies: Uint8Array[]): AsyncIterable<Uint8Array> {
  for (let body = bodies.shift(); body; body = bodies.shift()) yield body;
}

/** An empty message of a content type. */
async function* nothing(type: string): AsyncIterable<Uint8Array> {
  const message = Buffer.from(type.includes("json") ? "{}" : "");
  if (!UNARY.test(type)) yield Buffer.from([0, 0, 0, 0, message.length]);
  yield message;
}
