import type { Readable } from "node:stream";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "./errors.ts";

export const payloadTooLarge = () =>
  new ServiceError(Reason.PAYLOAD_TOO_LARGE, "The body is larger than this method accepts.");

type Bounds = {
  maxBytes: number;
  /** Reserves memory for a body of this size. @throws ServiceError if there is none */
  reserve(bytes: number): void;
  /** Longest time until the end of the body, in ms; by default the server has a limit of its own. */
  timeoutMs?: number;
};

/**
 * Reads a body up to its body limit. Its parts are joined as they arrive, since many small buffers cost more memory than
 * their content. After an error the rest is discarded.
 * @throws ServiceError PAYLOAD_TOO_LARGE, REQUEST_TIMEOUT, MALFORMED_REQUEST if the client leaves before the end
 */
export function readBody(stream: Readable, { maxBytes, reserve, timeoutMs }: Bounds): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let buffer = Buffer.alloc(0);
    let bytes = 0;
    const finish = (error?: unknown) => {
      clearTimeout(timer);
      stream.off("data", add).off("end", finish).off("error", breakOff).off("close", breakOff);
      if (error === undefined) return resolve(buffer.subarray(0, bytes));
      buffer = Buffer.alloc(0);
      stream.on("error", () => {}).resume();
      reject(error);
    };
    const add = (part: Buffer) => {
      const start = bytes;
      bytes += part.length;
      try {
        if (bytes > maxBytes) throw payloadTooLarge();
        reserve(bytes);
      } catch (error) {
        return finish(error);
      }
      if (bytes > buffer.length)
        buffer = Buffer.concat([buffer], Math.min(Math.max(bytes, 2 * buffer.length), maxBytes));
      buffer.set(part, start);
    };
    const breakOff = () => finish(new ServiceError(Reason.MALFORMED_REQUEST, "The request broke off."));
    const late = () => finish(new ServiceError(Reason.REQUEST_TIMEOUT, "The request took too long to arrive."));
    const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs);
    stream.on("data", add).on("end", finish).on("error", breakOff).on("close", breakOff);
  });
}

/** Maximum number of fields of a protobuf message. The largest legal request has 517: 512 messages and 5 others. */
const MAX_FIELDS = 1_024;
/** Maximum number of values of a message in JSON, members included. */
const MAX_VALUES = 10_000;

const [QUOTE, BACKSLASH, COMMA, BRACKET, BRACE] = [0x22, 0x5c, 0x2c, 0x5b, 0x7b];

/** Counts the values of a JSON text without parsing it: 2 MiB of them would block the process for a third of a second. */
function checkJsonSize(text: Uint8Array): void {
  let values = 0;
  for (let i = 0; i < text.length; i++) {
    const byte = text[i];
    if (byte === QUOTE) i = closingQuote(text, i);
    else if (byte === COMMA || byte === BRACKET || byte === BRACE) values++;
    if (values > MAX_VALUES) throw tooMany();
  }
}

/** Index of the quote that ends the string which begins at `opening`; the length of the text if none does. */
function closingQuote(text: Uint8Array, opening: number): number {
  for (let i = text.indexOf(QUOTE, opening + 1); i !== -1; i = text.indexOf(QUOTE, i + 1)) {
    let backslashes = 0;
    while (text[i - 1 - backslashes] === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return i;
  }
  return text.length;
}

/**
 * Counts the top-level fields of a protobuf message, or the values of one in JSON, before they become objects.
 * @throws ServiceError MALFORMED_REQUEST
 */
export function checkMessageSize(message: Uint8Array, isJson: boolean): void {
  (isJson ? checkJsonSize : checkFieldCount)(message);
}

function checkFieldCount(message: Uint8Array): void {
  let fields = 0;
  for (let at = 0; at < message.length; ) {
    if (++fields > MAX_FIELDS) throw tooMany();
    const tag = readVarint(message, at);
    const next = skipValue(message, tag.end, tag.value & 7);
    if (next === undefined) return; // not protobuf: the decoder says so
    at = next;
  }
}

function skipValue(bytes: Uint8Array, at: number, wireType: number): number | undefined {
  switch (wireType) {
    case 0:
      return readVarint(bytes, at).end;
    case 1:
      return at + 8;
    case 2: {
      const length = readVarint(bytes, at);
      return length.end + length.value;
    }
    case 5:
      return at + 4;
    default:
      return undefined;
  }
}

function readVarint(bytes: Uint8Array, start: number): { value: number; end: number } {
  let value = 0;
  let at = start;
  for (let factor = 1; ; factor *= 128) {
    const byte = bytes[at++] ?? 0;
    value += (byte & 0x7f) * factor;
    if (byte < 0x80) return { value, end: at };
  }
}

const tooMany = () => new ServiceError(Reason.MALFORMED_REQUEST, "The request has too many fields.");
