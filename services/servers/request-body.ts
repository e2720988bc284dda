import type { Http2ServerRequest } from "node:http2";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { type DescMessage, type DescMethod, fromBinary, fromJsonString } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import type { FastifyRequest } from "fastify";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import {
  checkJson,
  FORMAT_BOUNDS,
  type JsonBounds,
  MAX_FORMAT_FIELDS,
  tooManyFields,
} from "../platform/rpc/check-json.ts";
import { ServiceError, toConnectError } from "../platform/rpc/errors.ts";
import { DEFAULT_BODY_BYTES, policyOf, remembered } from "../platform/rpc/policy.ts";
import { payloadTooLarge, readBody } from "../platform/rpc/read-body.ts";
import type { Unread } from "../platform/rpc/unread.ts";

/**
 * Maximum factor by which a compressed message may expand, and the size in bytes to which even a
 * tiny one may expand.
 */
const MAX_EXPANSION = 20;
const MIN_EXPANDED_BYTES = 1_024;
/**
 * Bytes before a message: flags and length (gRPC over HTTP/2; the same in Connect and
 * gRPC-Web).
 */
const FRAME_HEAD_BYTES = 5;
const COMPRESSED = 1;
/** Content types of requests whose body is the bare message. */
const UNFRAMED = /^application\/(json|proto)\b/i;
export const GZIP = "gzip";
const ENCODING_HEADERS = ["content-encoding", "grpc-encoding", "connect-content-encoding"];
/**
 * Maximum number of fields in a protobuf message, nested messages included. The largest legal
 * request has 1,541: 512 messages, their roles and contents, and 5 others. Methods with a format of
 * their own on HTTP have larger ones.
 */
const MAX_FIELDS = 4_096;
/** Maximum number of values in a JSON message, including members. */
const MAX_VALUES = 10_000;

/** How many fields a message of a method may have: in protobuf, and in JSON. */
const boundsOf = remembered((method: DescMethod): { fields: number; json: JsonBounds } =>
  policyOf(method)?.httpFormat
    ? { fields: MAX_FORMAT_FIELDS, json: FORMAT_BOUNDS }
    : { fields: MAX_FIELDS, json: { values: MAX_VALUES } },
);

/** What path, query and cookies can add to a message, in bytes. */
const HEAD_BYTES = 16 * 1024;
const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** The HTTP/2 request behind a request to the gRPC port. */
export const rawOf = ({ raw }: FastifyRequest) => raw as unknown as Http2ServerRequest;

/** Maximum message size of a method, in bytes. */
export function maxBytesOf(method: DescMethod): number {
  const policy = policyOf(method);
  return policy ? policy.maxBodyBytes + HEAD_BYTES : DEFAULT_BODY_BYTES;
}

/**
 * Maximum number of bytes to read of a body: without a valid access token at most 16 KiB, whatever
 * the method.
 */
const bytesToRead = ({ admitted }: FastifyRequest, method: DescMethod) =>
  FRAME_HEAD_BYTES +
  (admitted?.credential || admitted?.open.isForwarded ? maxBytesOf(method) : DEFAULT_BODY_BYTES);

/** The body of a call for Connect, and what could not be read of it. */
type Received = { body: AsyncIterable<Uint8Array>; unread?: Unread };

/**
 * Receives the body of a call. If it is a single message, it is read and checked here first, since
 * Connect's errors quote the request and count as internal. Decoding it twice costs 2 µs for a
 * login and 0.3 ms for the largest conversation.
 * @param timeoutMs maximum time until the message has been received
 * @throws ServiceError PAYLOAD_TOO_LARGE, MALFORMED_REQUEST, NOT_IMPLEMENTED, REQUEST_TIMEOUT,
 * TOO_MANY_CONCURRENT, UNAVAILABLE
 */
export async function receiveBody(
  request: FastifyRequest,
  method: DescMethod,
  timeoutMs: number,
): Promise<Received> {
  const { headers, admitted } = request;
  const raw = rawOf(request);
  const maxBytes = bytesToRead(request, method);
  const isEncoded = takeEncoding(request);
  if (method.methodKind === "bidi_streaming")
    return { body: limited(raw.iterator({ destroyOnReturn: false }), maxBytes) };
  const body = await readBody(raw, admitted?.permit, maxBytes, timeoutMs);
  try {
    const message = await checkMessage(request, method, body, isEncoded);
    if (raw.stream.destroyed) throw malformed("The request ended prematurely."); // Connect would not notice
    return { body: limited([message], maxBytes) };
  } catch (error) {
    const isAdmins = policyOf(method)?.access === Access.ADMIN; // their role must be checked first
    if (!admitted || !isAdmins || !(error instanceof ServiceError)) throw error;
    const empty = withFrame(Buffer.from(isJson(headers) ? "{}" : ""), headers);
    return { body: limited([empty], maxBytes), unread: { fault: error } };
  }
}

/**
 * Passes on the parts of a body up to the size limit. Connect decodes the messages of a reflection
 * stream one at a time.
 */
async function* limited(
  parts: AsyncIterable<Buffer> | Buffer[],
  maxBytes: number,
): AsyncIterable<Uint8Array> {
  let bytes = 0;
  for await (const part of parts) {
    bytes += part.length;
    if (bytes > maxBytes) throw toConnectError(payloadTooLarge(maxBytes));
    yield part;
  }
}

/**
 * Whether the message is compressed or, in a frame, may be: clients that compress send small
 * messages as they are. The headers are removed, since Connect gets the decompressed
 * message.
 * @throws ServiceError
 */
function takeEncoding({ headers, admitted }: FastifyRequest): boolean {
  const encoding = ENCODING_HEADERS.map((name) => headers[name]).find(
    (sent = "identity") => sent !== "identity",
  );
  for (const name of [...ENCODING_HEADERS, "content-length"]) delete headers[name];
  if (encoding === undefined) return false;
  if (!admitted?.credential && !isFramed(headers)) throw compressedByStranger();
  if (encoding === GZIP) return true;
  throw new ServiceError(Reason.NOT_IMPLEMENTED, "The only supported compression is gzip.");
}

const compressedByStranger = () =>
  new ServiceError(
    Reason.NOT_IMPLEMENTED,
    "Requests without an access token must not be compressed.",
  );

type RequestHeaders = FastifyRequest["headers"];

/** A charset parameter other than UTF-8, the only charset of JSON (RFC 8259). */
const OTHER_CHARSET = /^charset\s*=\s*(?!"?utf-?8"?$)/i;

/**
 * Writes the content type as Connect reads it: in lower case, and without its parameters, which are
 * meaningless in all of the protocols. A charset other than UTF-8 is left for Connect to reject.
 */
export function plainContentType(headers: RequestHeaders): void {
  const [type = "", ...parameters] = (headers["content-type"] ?? "").split(";");
  const isOther = parameters.some((parameter) => OTHER_CHARSET.test(parameter.trim()));
  if (type !== "" && !isOther) headers["content-type"] = type.trim().toLowerCase();
}

const isJson = ({ "content-type": type = "" }: RequestHeaders) => /json/i.test(type);
const isFramed = ({ "content-type": type = "" }: RequestHeaders) => !UNFRAMED.test(type);

function withFrame(message: Buffer, headers: RequestHeaders): Buffer {
  if (!isFramed(headers)) return message;
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/**
 * The body with its message decompressed, once it is known to be decodable.
 * @throws ServiceError
 */
async function checkMessage(
  { headers, admitted }: FastifyRequest,
  method: DescMethod,
  body: Buffer,
  isEncoded: boolean,
): Promise<Buffer> {
  const maxBytes = maxBytesOf(method);
  const hasFrame = isFramed(headers);
  if (hasFrame && body.length === 0)
    throw new ServiceError(Reason.NOT_IMPLEMENTED, "The request must contain one message."); // the code that gRPC specifies
  const isCompressed = hasFrame ? readFrame(body, maxBytes, isEncoded) : isEncoded;
  if (isCompressed && !admitted?.credential) throw compressedByStranger();
  const sent = hasFrame ? body.subarray(FRAME_HEAD_BYTES) : body;
  const message = isCompressed && sent.length > 0 ? await expand(sent, maxBytes) : sent;
  admitted?.permit.reserveBody(message.length);
  const bounds = boundsOf(method);
  try {
    if (isJson(headers)) {
      checkJson(message.toString(), bounds.json);
      fromJsonString(method.input, UTF8.decode(message), { ignoreUnknownFields: true }); // as on REST, and as Connect reads it
    } else {
      checkFields(method.input, message, bounds.fields);
      fromBinary(method.input, message, { readUnknownFields: false });
    }
  } catch (error) {
    throw error instanceof ServiceError ? error : malformed();
  }
  return isCompressed ? withFrame(message, headers) : body;
}

/**
 * Counts the fields of a protobuf message and its nested messages before they become objects.
 * Groups, which no version of the protos has used, are rejected: they would be read without a
 * limit.
 * @param max maximum number of fields
 * @param counted number of fields counted before this message
 * @returns the number of fields up to the end of this message
 * @throws ServiceError MALFORMED_REQUEST; Error if it is not a protobuf message
 */
function checkFields(schema: DescMessage, message: Uint8Array, max: number, counted = 0): number {
  const reader = new BinaryReader(message);
  let fields = counted;
  while (reader.pos < reader.len) {
    fields++;
    if (fields > max) throw tooManyFields();
    const [number, wireType] = reader.tag();
    const inner = wireType === WireType.LengthDelimited && messageFields(schema).get(number);
    if (wireType === WireType.StartGroup) throw malformed();
    if (inner) fields = checkFields(inner, reader.bytes(), max, fields);
    else reader.skip(wireType, number);
  }
  return fields;
}

/** The message types of a message's fields, by field number. */
const messageFields = remembered(
  ({ fields }: DescMessage): ReadonlyMap<number, DescMessage> =>
    new Map(fields.flatMap(({ number, message }) => (message ? [[number, message]] : []))),
);

/**
 * Decompresses a message.
 * @throws ServiceError PAYLOAD_TOO_LARGE, MALFORMED_REQUEST
 */
async function expand(message: Buffer, maxBytes: number): Promise<Buffer> {
  const maxOutputLength = Math.min(
    maxBytes,
    Math.max(MAX_EXPANSION * message.length, MIN_EXPANDED_BYTES),
  );
  return promisify(gunzip)(message, { maxOutputLength }).catch(
    ({ code }: NodeJS.ErrnoException) => {
      throw code === "ERR_BUFFER_TOO_LARGE" ? payloadTooLarge(maxOutputLength) : malformed();
    },
  );
}

/**
 * Checks the single frame of a body.
 * @returns whether its message is compressed
 */
function readFrame(body: Buffer, maxBytes: number, isEncoded: boolean): boolean {
  if (body.length < FRAME_HEAD_BYTES) throw malformed();
  const [flags, length] = [body.readUInt8(0), body.readUInt32BE(1)];
  if (length > maxBytes) throw payloadTooLarge(maxBytes);
  if (length !== body.length - FRAME_HEAD_BYTES || flags > (isEncoded ? COMPRESSED : 0))
    throw malformed();
  return flags === COMPRESSED;
}

/**
 * Discards the rest of a body, since what a Node client can't send would block its connection
 * (docs/decisions/0012). Resolves at its end, or after the given time.
 */
export function discardBody(raw: Http2ServerRequest, ms: number): Promise<void> {
  const { stream } = raw;
  if (raw.complete || stream.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(end, Math.max(0, ms));
    stream.once("close", end);
    raw.once("end", end).resume();
  });
}

const malformed = (message = "The request cannot be parsed.") =>
  new ServiceError(Reason.MALFORMED_REQUEST, message);
