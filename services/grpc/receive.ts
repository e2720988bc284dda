import { once } from "node:events";
import type { Http2ServerRequest } from "node:http2";
import { constants } from "node:http2";
import type { DescMethod } from "@bufbuild/protobuf";
import type { FastifyRequest } from "fastify";
import { toConnectError } from "../platform/errors.ts";
import { policyOf } from "../platform/policy.ts";
import { readBody } from "../platform/read-body.ts";
import { checkRequestBody, encodingOf, inConnectTerms } from "./messages.ts";

/** Time limits of the port, in ms. */
export type Timeouts = {
  /** Until a request has arrived. */
  requestMs: number;
  /** While a client accepts no data of a response. */
  writeMs: number;
  /** While a connection has no open call. */
  idleMs: number;
  /** Of a reflection stream. */
  reflectionMs: number;
};

/** Largest message of a method that names no size, and what a gateway adds to it from path, query and cookies, in bytes. */
const DEFAULT_BODY_BYTES = 16 * 1024;
export const HEAD_BYTES = 16 * 1024;

/** Largest message of a method, in bytes. */
export const maxBytesOf = (method: DescMethod) =>
  (policyOf(method)?.policy.maxBodyBytes || DEFAULT_BODY_BYTES) + HEAD_BYTES;

/** The stream of a request to the gRPC port. */
const rawOf = ({ raw }: FastifyRequest) => raw as unknown as Http2ServerRequest;

function closeAfter({ stream }: Http2ServerRequest, ms: number): void {
  const timer = setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), ms);
  stream.once("close", () => clearTimeout(timer));
}

/** Has the body of a call read within its limits once Connect asks for it. Undefined: Connect reads messages one by one. */
export function receiveBody(request: FastifyRequest, method: DescMethod, timeouts: Timeouts) {
  const raw = rawOf(request);
  if (method.methodKind === "bidi_streaming") return void closeAfter(raw, timeouts.reflectionMs);
  // Node does not clear this timer when the connection is cut, so that only calls with a token have it.
  if (request.admitted?.claims) {
    const { stream } = raw;
    stream.setTimeout(timeouts.writeMs, () => stream.writableLength > 0 && stream.close(constants.NGHTTP2_CANCEL));
  }
  return requestBody(request, raw, method, timeouts.requestMs);
}

async function* requestBody(request: FastifyRequest, raw: Http2ServerRequest, method: DescMethod, timeoutMs: number) {
  const { admitted, headers } = request;
  const startedAt = performance.now();
  const maxBytes = maxBytesOf(method);
  const reserve = (size: number) => admitted?.permit.reserveBody(size);
  const bytes = await readBody(raw, { maxBytes, reserve, timeoutMs }).catch(async (error) => {
    await discard(raw, timeoutMs - (performance.now() - startedAt));
    throw toConnectError(error);
  });
  const isCompressed = encodingOf(headers) !== undefined;
  const contentType = headers["content-type"] ?? "";
  inConnectTerms(() => checkRequestBody(method, { bytes, contentType, isCompressed, maxBytes }));
  yield bytes;
}

/** Discards the body of a refused call. */
export const discardBody = (request: FastifyRequest, timeouts: Timeouts) => discard(rawOf(request), timeouts.requestMs);

/**
 * Discards what is left of a body, to its end: what clients of Node could not send when they got their response would clog
 * their connection. A client that sends for too long has its stream closed once it has the response (RFC 9113 section 8.1).
 */
async function discard(raw: Http2ServerRequest, ms: number): Promise<void> {
  const { stream } = raw;
  if (raw.complete || stream.destroyed) return;
  const signal = AbortSignal.timeout(Math.max(0, Math.ceil(ms)));
  raw.resume();
  await Promise.race([once(raw, "end", { signal }), once(stream, "close", { signal })]).catch(() => {
    stream.once("wantTrailers", () => setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR)));
  });
}
