import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { type DescMethod, fromBinary, fromJsonString } from "@bufbuild/protobuf";
import type { ConnectRouterOptions } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError, toConnectError } from "../platform/errors.ts";
import { checkMessageSize } from "../platform/message-limits.ts";
import { payloadTooLarge } from "../platform/read-body.ts";

type Compression = NonNullable<ConnectRouterOptions["acceptCompression"]>[number];

/** A compressed message may become so many times larger; a small one may always become this large, in bytes. */
const MAX_EXPANSION = 20;
const MIN_EXPANDED_BYTES = 1_024;
/** Length in bytes of what precedes a message: flags, and its length (gRPC over HTTP/2; Connect and gRPC-Web likewise). */
const FRAME_HEAD_BYTES = 5;
const COMPRESSED = 1;
/** Content types of requests that are a message without a frame. */
const UNFRAMED = /^application\/(json|proto)\b/i;
const ENCODING_HEADERS = ["content-encoding", "grpc-encoding", "connect-content-encoding"];

const decompress = promisify(gunzip);

/** Reads requests that are compressed by gzip. Responses are not compressed: see `compressMinBytes` of the server. */
export const boundedGzip: Compression = {
  name: "gzip",
  compress: async (bytes) => Uint8Array.from(bytes),
  async decompress(bytes, readMaxBytes) {
    const maxOutputLength = Math.min(readMaxBytes, Math.max(MAX_EXPANSION * bytes.length, MIN_EXPANDED_BYTES));
    const message = await decompress(bytes, { maxOutputLength }).catch((error: NodeJS.ErrnoException) => {
      throw toConnectError(error.code === "ERR_BUFFER_TOO_LARGE" ? payloadTooLarge() : malformed());
    });
    inConnectTerms(() => checkMessageSize(message));
    return new Uint8Array(message);
  },
};

/** The encoding of a request's messages; undefined if they are not compressed. */
export function encodingOf(headers: Record<string, string | string[] | undefined>): string | undefined {
  return ENCODING_HEADERS.flatMap((name) => headers[name]).find(
    (encoding) => encoding !== undefined && encoding !== "identity",
  );
}

/** A request of one message as it was received. */
export type RequestBody = { bytes: Buffer; contentType: string; isCompressed: boolean; maxBytes: number };

/**
 * Checks a request before Connect decodes it, whose errors quote what was sent and blame the server. A compressed message is
 * checked for its size once it is expanded.
 * @throws ServiceError PAYLOAD_TOO_LARGE, MALFORMED_REQUEST
 */
export function checkRequestBody(
  method: DescMethod,
  { bytes, contentType, isCompressed, maxBytes }: RequestBody,
): void {
  const isFramed = !UNFRAMED.test(contentType);
  if (isFramed && bytes.length === 0) throw new ServiceError(Reason.NOT_IMPLEMENTED, "A request is one message."); // gRPC's code
  const flags = isFramed ? readFlags(bytes, maxBytes) : 0;
  if (isCompressed && (flags === COMPRESSED || !isFramed)) return;
  if (flags !== 0) throw malformed();
  const message = isFramed ? bytes.subarray(FRAME_HEAD_BYTES) : bytes;
  checkMessageSize(message);
  try {
    if (contentType.includes("json")) fromJsonString(method.input, message.toString());
    else fromBinary(method.input, message, { readUnknownFields: false });
  } catch {
    throw malformed();
  }
}

/** The flags of the frame that a body consists of. */
function readFlags(body: Buffer, maxBytes: number): number {
  if (body.length < FRAME_HEAD_BYTES) throw malformed();
  const length = body.readUInt32BE(1);
  if (length > maxBytes) throw payloadTooLarge();
  if (length !== body.length - FRAME_HEAD_BYTES) throw malformed();
  return body.readUInt8(0);
}

/** Runs something and throws its ServiceError as a ConnectError. */
export function inConnectTerms<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof ServiceError ? toConnectError(error) : error;
  }
}

const malformed = () => new ServiceError(Reason.MALFORMED_REQUEST, "The request can't be read.");
