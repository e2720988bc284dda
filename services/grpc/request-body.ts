import { once } from "node:events";
import type { Http2ServerRequest } from "node:http2";
import { constants } from "node:http2";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { type DescMethod, fromBinary, fromJsonString } from "@bufbuild/protobuf";
import type { ConnectRouterOptions } from "@connectrpc/connect";
import type { FastifyRequest } from "fastify";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { checkMessageSize, payloadTooLarge, readBody } from "../platform/body-limits.ts";
import { ServiceError, toConnectError } from "../platform/errors.ts";
import { DEFAULT_BODY_BYTES, maxBodyBytes, policyOf } from "../platform/policy.ts";

/** Maximum factor by which a compressed message may expand. A small one may always expand to this size, in bytes. */
const MAX_EXPANSION = 20;
const MIN_EXPANDED_BYTES = 1_024;
/** Bytes before a message: flags and its length (gRPC over HTTP/2; the same in Connect and gRPC-Web). */
const FRAME_HEAD_BYTES = 5;
const COMPRESSED = 1;
/** Content types of requests that are a message without a frame. */
const UNFRAMED = /^application\/(json|proto)\b/i;
const ENCODING_HEADERS = ["content-encoding", "grpc-encoding", "connect-content-encoding"];
/** What path, query and cookies add to a message, in bytes. */
const HEAD_BYTES = 16 * 1024;

/** Time limits of the port, in ms. */
export type Timeouts = {
  /** Until a request has arrived. */
  requestMs: number;
  /** While a client reads nothing of a response. */
  writeMs: number;
  /** While a connection has no open call. */
  idleMs: number;
  /** Of a reflection stream. */
  reflectionMs: number;
};

const decompress = promisify(gunzip);

/** Reads requests that are compressed by gzip. Responses are not compressed: see `compressMinBytes` of the server. */
export const boundedGzip: NonNullable<ConnectRouterOptions["acceptCompression"]>[number] = {
  name: "gzip",
  compress: async (bytes) => Uint8Array.from(bytes),
  async decompress(bytes, readMaxBytes) {
    const maxOutputLength = Math.min(readMaxBytes, Math.max(MAX_EXPANSION * bytes.length, MIN_EXPANDED_BYTES));
    try {
      const message = await decompress(bytes, { maxOutputLength });
      checkMessageSize(message);
      return new Uint8Array(message);
    } catch (error) {
      if (error instanceof ServiceError) throw toConnectError(error);
      const isTooLarge = (error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE";
      throw toConnectError(isTooLarge ? payloadTooLarge() : malformed());
    }
  },
};

/** The encoding of a request's messages; undefined if they are not compressed. */
export function encodingOf(headers: FastifyRequest["headers"]): string | undefined {
  for (const name of ENCODING_HEADERS) {
    const encoding = headers[name];
    if (encoding !== undefined && encoding !== "identity") return String(encoding);
  }
  return undefined;
}

/** Maximum message of a method, in bytes. */
export function maxBytesOf(method: DescMethod): number {
  const policy = policyOf(method)?.policy;
  return policy ? maxBodyBytes(policy) + HEAD_BYTES : DEFAULT_BODY_BYTES;
}

/** What is read of a body, in bytes: without a valid access token no more than 16 KiB, whatever the method. */
const bytesToRead = ({ admitted }: FastifyRequest, method: DescMethod) =>
  FRAME_HEAD_BYTES + (admitted?.claims || admitted?.isForwarded ? maxBytesOf(method) : DEFAULT_BODY_BYTES);

/** The HTTP/2 request behind a request to the gRPC port. */
export const rawOf = ({ raw }: FastifyRequest) => raw as unknown as Http2ServerRequest;

/** The body of a call, with the time limits of its stream. */
export function receiveBody(
  request: FastifyRequest,
  method: DescMethod,
  { requestMs, writeMs, reflectionMs }: Timeouts,
): AsyncIterable<Uint8Array> {
  const { stream } = rawOf(request);
  const cancel = () => stream.close(constants.NGHTTP2_CANCEL);
  if (method.methodKind === "bidi_streaming") {
    const timer = setTimeout(cancel, reflectionMs);
    stream.once("close", () => clearTimeout(timer));
    return discardRest(request, reflectionMs, readMessages(request, method));
  }
  // Only for calls with a token, since Node does not clear this timer when the connection closes.
  if (request.admitted?.claims) stream.setTimeout(writeMs, () => stream.writableLength > 0 && cancel());
  return discardRest(request, requestMs, readMessage(request, method, requestMs));
}

/** Passes a body on to Connect. After an error it discards the rest. */
async function* discardRest(request: FastifyRequest, timeoutMs: number, body: AsyncIterable<Uint8Array>) {
  const startedAt = performance.now();
  try {
    yield* body;
  } catch (error) {
    await discardBody(request, timeoutMs - (performance.now() - startedAt));
    throw error instanceof ServiceError ? toConnectError(error) : error;
  }
}

/**
 * Reads the body of a call of one message. The message is checked before Connect decodes it: errors of Connect quote the
 * request and count as internal. Decoding it twice costs 2 µs for a login and 0.3 ms for the largest conversation.
 * @throws ServiceError PAYLOAD_TOO_LARGE, MALFORMED_REQUEST, REQUEST_TIMEOUT, TOO_MANY_CONCURRENT, UNAVAILABLE
 */
async function* readMessage(request: FastifyRequest, method: DescMethod, timeoutMs: number) {
  const maxBytes = bytesToRead(request, method);
  const reserve = (size: number) => request.admitted?.permit.reserveBody(size);
  const body = await readBody(rawOf(request), { maxBytes, reserve, timeoutMs });
  yield checkedBody(request, method, body);
}

/** Reads the body of a reflection stream, whose messages Connect decodes one by one. @throws ServiceError PAYLOAD_TOO_LARGE */
async function* readMessages(request: FastifyRequest, method: DescMethod): AsyncIterable<Uint8Array> {
  let bytes = 0;
  for await (const part of rawOf(request).iterator({ destroyOnReturn: false })) {
    bytes += part.length;
    if (bytes > bytesToRead(request, method)) throw payloadTooLarge();
    yield part;
  }
}

/** The body, or an empty message if it can't be read and the role of the caller has to be checked first. @throws ServiceError */
function checkedBody(request: FastifyRequest, method: DescMethod, body: Buffer): Buffer {
  try {
    checkRequestBody(method, body, request.headers);
    return body;
  } catch (error) {
    const { admitted, headers } = request;
    const isAdmins = policyOf(method)?.policy.access === Access.ADMIN;
    if (!admitted || !isAdmins || !(error instanceof ServiceError)) throw error;
    admitted.fault = error;
    return emptyMessage(headers["content-type"] ?? "");
  }
}

function emptyMessage(contentType: string): Buffer {
  const message = Buffer.from(contentType.includes("json") ? "{}" : "");
  const head = Buffer.alloc(UNFRAMED.test(contentType) ? 0 : FRAME_HEAD_BYTES);
  if (head.length > 0) head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Checks a body. A compressed message is checked by `boundedGzip`, once it is expanded. @throws ServiceError */
function checkRequestBody(method: DescMethod, body: Buffer, headers: FastifyRequest["headers"]): void {
  const contentType = headers["content-type"] ?? "";
  const isFramed = !UNFRAMED.test(contentType);
  if (isFramed && body.length === 0) throw new ServiceError(Reason.NOT_IMPLEMENTED, "A request is one message."); // the code that gRPC specifies
  const flags = isFramed ? readFlags(body, maxBytesOf(method)) : 0;
  if (encodingOf(headers) !== undefined && (flags === COMPRESSED || !isFramed)) return;
  if (flags !== 0) throw malformed();
  const message = isFramed ? body.subarray(FRAME_HEAD_BYTES) : body;
  checkMessageSize(message);
  try {
    if (contentType.includes("json")) fromJsonString(method.input, message.toString());
    else fromBinary(method.input, message, { readUnknownFields: false });
  } catch {
    throw malformed();
  }
}

/** The flags of the one frame of a body. */
function readFlags(body: Buffer, maxBytes: number): number {
  if (body.length < FRAME_HEAD_BYTES) throw malformed();
  const length = body.readUInt32BE(1);
  if (length > maxBytes) throw payloadTooLarge();
  if (length !== body.length - FRAME_HEAD_BYTES) throw malformed();
  return body.readUInt8(0);
}

/**
 * Discards the rest of a body up to its end. A part that a Node client could not send would count against its connection
 * for ever: see docs/decisions/0012. A client that sends for too long gets the response, then its stream is closed (RFC
 * 9113 section 8.1).
 */
export async function discardBody(request: FastifyRequest, ms: number): Promise<void> {
  const raw = rawOf(request);
  const { stream } = raw;
  if (raw.complete || stream.destroyed) return;
  const signal = AbortSignal.timeout(Math.max(0, Math.ceil(ms)));
  raw.resume();
  await Promise.race([once(raw, "end", { signal }), once(stream, "close", { signal })]).catch(() => {
    stream.once("wantTrailers", () => setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR)));
  });
}

const malformed = () => new ServiceError(Reason.MALFORMED_REQUEST, "The request can't be read.");
