import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";

/**
 * How a gateway and services in other processes speak: the Connect protocol over HTTP/1.1, binary and without compression.
 * A request is one bare message. Every response is a stream, of one message if the call is unary.
 * https://connectrpc.com/docs/protocol
 */
export const CONTENT_TYPE = "application/connect+proto";
/** Request header with the deadline of a call, in ms. */
export const TIMEOUT_HEADER = "connect-timeout-ms";
/** Flag of the last envelope of a response. Its message is JSON: trailers, and the error of the call. */
const END_STREAM = 0x02;
/** Flag of an empty envelope that shows that the services are alive. The protocol has none. */
const ALIVE = 0x80;
/** Bytes before a message: flags and length. */
const HEAD_BYTES = 5;

/** Parses the address of an internal listener: `unix:/path`, `tcp://host:port` or `tls://host:port`. */
export function readInternalUrl(url: string) {
  const { protocol, hostname, port, pathname } = new URL(url);
  if (protocol === "unix:") return { isTls: false, at: { path: pathname } };
  return { isTls: protocol === "tls:", at: { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) } };
}

/** A message as it is sent. */
export function envelope(message: Uint8Array, flags = 0): Buffer {
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + message.length);
  bytes.writeUInt8(flags, 0);
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, HEAD_BYTES);
  return bytes;
}

export const ALIVE_ENVELOPE = envelope(Buffer.alloc(0), ALIVE);

/** The last envelope of a response. */
export function endEnvelope(trailer: Headers, error?: ConnectError): Buffer {
  const details = error?.details.map((detail) => {
    const isOurs = "desc" in detail;
    const value = isOurs ? toBinary(detail.desc, create(detail.desc, detail.value)) : detail.value;
    return { type: isOurs ? detail.desc.typeName : detail.type, value: Buffer.from(value).toString("base64") };
  });
  const metadata = Object.fromEntries([...trailer].map(([name, value]) => [name, [value]]));
  const failure = error && { code: nameOf(Code[error.code]), message: error.rawMessage, details };
  return envelope(Buffer.from(JSON.stringify({ metadata, error: failure })), END_STREAM);
}

/** Reads a response, part by part. */
export class ResponseReader {
  readonly trailer = new Headers();
  #end: End | undefined;
  #rest: Buffer = Buffer.alloc(0);
  readonly #maxBytes: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The messages that are complete with this part. @throws ConnectError if one is too large */
  *read(part: Buffer): Generator<Buffer> {
    let rest = this.#rest.length === 0 ? part : Buffer.concat([this.#rest, part]);
    while (rest.length >= HEAD_BYTES) {
      const end = HEAD_BYTES + rest.readUInt32BE(1);
      if (end > this.#maxBytes) throw new ConnectError("A message is too large.", Code.ResourceExhausted);
      if (rest.length < end) break;
      const message = rest.subarray(HEAD_BYTES, end);
      const flags = rest.readUInt8(0);
      rest = rest.subarray(end);
      if (flags === END_STREAM) this.#end = JSON.parse(message.toString());
      else if (flags !== ALIVE) yield message;
    }
    this.#rest = rest;
  }

  /** Call it when all parts have been read. @throws ConnectError the error of the call, or that the response is incomplete */
  assertSuccess(): void {
    if (!this.#end) throw new ConnectError("The response broke off.", Code.Unavailable);
    const { metadata, error } = this.#end;
    for (const [name, values] of Object.entries(metadata)) this.trailer.set(name, values.join());
    if (!error) return;
    const failure = new ConnectError(error.message, codes.get(error.code) ?? Code.Unknown, this.trailer);
    failure.details = error.details.map(({ type, value }) => ({ type, value: Buffer.from(value, "base64") }));
    throw failure;
  }
}

type End = {
  metadata: Record<string, string[]>;
  error?: { code: string; message: string; details: { type: string; value: string }[] };
};

const nameOf = (code: string) => code.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase();
const codes = new Map(Object.entries(Code).map(([name, code]) => [nameOf(name), code as Code]));
