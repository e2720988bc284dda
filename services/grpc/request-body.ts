import { once } from "node:events";
import { constants, type Http2ServerRequest } from "node:http2";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { type DescMethod, fromBinary, fromJsonString } from "@bufbuild/protobuf";
import type { FastifyRequest } from "fastify";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { checkFields, checkJson, payloadTooLarge, readBody } from "../platform/body-limits.ts";
import { ServiceError } from "../platform/errors.ts";
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
/** Most values of a message in JSON, members included. */
const MAX_VALUES = 10_000;
/** What path, query and cookies add to a message, in bytes. */
const HEAD_BYTES = 16 * 1024;
const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** Time limits of the port, in ms. As on the REST port, but connections may be idle for longer, since clients pool them. */
export const TIMEOUTS = {
  /** Until a request has arrived. */
  requestMs: 30_000,
  /** While a client reads nothing of a response. */
  writeMs: 120_000,
  /** While a connection has no open call. */
  idleMs: 600_000,
  /** Of a reflection stream. */
  reflectionMs: 60_000,
};

const decompress = promisify(gunzip);
const copy = async (bytes: Uint8Array) => Uint8Array.from(bytes);
/** Lets Connect accept gzip. Nothing is left to do: `readMessage` has expanded the request, and responses are not compressed. */
export const gzip = { name: "gzip", compress: copy, decompress: copy };

/** Expands a compressed message. @throws ServiceError PAYLOAD_TOO_LARGE, MALFORMED_REQUEST */
async function expand(message: Buffer, maxBytes: number): Promise<Buffer> {
  const maxOutputLength = Math.min(maxBytes, Math.max(MAX_EXPANSION * message.length, MIN_EXPANDED_BYTES));
  return decompress(message, { maxOutputLength }).catch(({ code }: NodeJS.ErrnoException) => {
    throw code === "ERR_BUFFER_TOO_LARGE" ? payloadTooLarge() : malformed();
  });
}

/** The encoding of a request's messages; undefined if they are not compressed. */
export const encodingOf = (headers: RequestHeaders): string | undefined =>
  ENCODING_HEADERS.map((name) => headers[name]?.toString()).find((encoding = "identity") => encoding !== "identity");

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

/** The body of a call, with the time limits of its stream. Its errors are those of `readMessage`. */
export function receiveBody(
  request: FastifyRequest,
  method: DescMethod,
  { requestMs, writeMs, reflectionMs }: typeof TIMEOUTS,
): AsyncIterable<Uint8Array> {
  const { stream } = rawOf(request);
  const cancel = () => stream.close(constants.NGHTTP2_CANCEL);
  if (method.methodKind === "bidi_streaming") {
    const timer = setTimeout(cancel, reflectionMs);
    stream.once("close", () => clearTimeout(timer));
    return readMessages(request, method);
  }
  // Only for calls with a token, since Node does not clear this timer when the connection closes.
  if (request.admitted?.claims) stream.setTimeout(writeMs, () => stream.writableLength > 0 && cancel());
  return readMessage(request, method, requestMs);
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
  yield await readableBody(request, method, body);
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
async function readableBody(request: FastifyRequest, method: DescMethod, body: Buffer): Promise<Buffer> {
  const { admitted, headers } = request;
  try {
    return withFrame(await messageIn(request, method, body), headers);
  } catch (error) {
    const isAdmins = policyOf(method)?.policy.access === Access.ADMIN;
    if (!admitted || !isAdmins || !(error instanceof ServiceError)) throw error;
    admitted.fault = error;
    return withFrame(Buffer.from(isJson(headers) ? "{}" : ""), headers);
  }
}

type RequestHeaders = FastifyRequest["headers"];
const isJson = ({ "content-type": type = "" }: RequestHeaders) => /json/i.test(type);
const isFramed = ({ "content-type": type = "" }: RequestHeaders) => !UNFRAMED.test(type);

function withFrame(message: Buffer, headers: RequestHeaders): Buffer {
  if (!isFramed(headers)) return message;
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** The message of a body, expanded, once it is known that it can be decoded. @throws ServiceError */
async function messageIn({ headers, admitted }: FastifyRequest, method: DescMethod, body: Buffer): Promise<Buffer> {
  const isEncoded = encodingOf(headers) !== undefined;
  const maxBytes = maxBytesOf(method);
  const hasFrame = isFramed(headers);
  if (hasFrame && body.length === 0) throw new ServiceError(Reason.NOT_IMPLEMENTED, "A request is one message."); // the code that gRPC specifies
  const flags = hasFrame ? readFlags(body, maxBytes) : Number(isEncoded);
  if (flags !== 0 && !(flags === COMPRESSED && isEncoded)) throw malformed();
  const sent = hasFrame ? body.subarray(FRAME_HEAD_BYTES) : body;
  const message = flags === COMPRESSED && sent.length > 0 ? await expand(sent, maxBytes) : sent;
  admitted?.permit.reserveBody(message.length);
  try {
    if (isJson(headers)) {
      checkJson(message.toString(), MAX_VALUES);
      fromJsonString(method.input, UTF8.decode(message), { ignoreUnknownFields: true }); // as on REST, and as Connect reads it
    } else {
      checkFields(message);
      fromBinary(method.input, message, { readUnknownFields: false });
    }
  } catch (error) {
    throw error instanceof ServiceError ? error : malformed();
  }
  return message;
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
