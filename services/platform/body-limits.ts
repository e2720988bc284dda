import type { Readable } from "node:stream";
import { BinaryReader } from "@bufbuild/protobuf/wire";
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
    const breakOff = () => finish(malformed("The request broke off."));
    const late = () => finish(new ServiceError(Reason.REQUEST_TIMEOUT, "The request took too long to arrive."));
    const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs);
    stream.on("data", add).on("end", finish).on("error", breakOff).on("close", breakOff);
  });
}

/** Most members of all objects of a JSON text; the largest legal request has 1,029. */
const MAX_MEMBERS = 10_000;
/** Deepest nesting of a JSON text. The deepest that a method needs is 3. */
const MAX_DEPTH = 32;
/** Most fields of a protobuf message. The largest legal request has 517: 512 messages and 5 others. */
const MAX_FIELDS = 1_024;

const TOO_MANY = "The request has too many fields.";
const malformed = (message: string) => new ServiceError(Reason.MALFORMED_REQUEST, message);

/**
 * Counts the top-level fields of a protobuf message before they become objects.
 * @throws ServiceError MALFORMED_REQUEST; Error if the message is not protobuf
 */
export function checkFields(message: Uint8Array): void {
  const reader = new BinaryReader(message);
  for (let fields = 1; reader.pos < reader.len; fields++) {
    if (fields > MAX_FIELDS) throw malformed(TOO_MANY);
    const [number, wireType] = reader.tag();
    reader.skip(wireType, number);
  }
}

/**
 * Checks the size and depth of a JSON text before it is parsed.
 * @param maxValues most values, each of which becomes an object: 2 MiB of them would block the process for a third of a second
 * @returns whether an object has a key twice
 * @throws ServiceError MALFORMED_REQUEST, SyntaxError
 */
export function checkJson(text: string, maxValues: number): boolean {
  const open: (Set<string> | undefined)[] = []; // keys of each open object; undefined for arrays
  let hasDuplicates = false;
  let [members, values] = [0, 0];
  let [start, end] = [0, 0]; // bounds of the latest string
  for (let i = 0; i < text.length; i++) {
    switch (text[i]) {
      case '"':
        start = i;
        i = closingQuote(text, i);
        end = i + 1;
        break;
      case ",":
        values++;
        break;
      case "{":
      case "[":
        values++;
        open.push(text[i] === "{" ? new Set() : undefined);
        if (open.length > MAX_DEPTH) throw malformed(`The body is nested more than ${MAX_DEPTH} levels deep.`);
        break;
      case "}":
      case "]":
        open.pop();
        break;
      case ":": {
        members++;
        const quoted = text.slice(start, end);
        const key: string = quoted.includes("\\") ? JSON.parse(quoted) : quoted.slice(1, -1); // an escaped key equals the plain one
        const keys = open.at(-1);
        hasDuplicates ||= keys?.has(key) ?? false;
        keys?.add(key);
      }
    }
    if (members > MAX_MEMBERS || values > maxValues) throw malformed(TOO_MANY);
  }
  return hasDuplicates;
}

/** Index of the quote that ends the string which begins at `opening`; the length of the text if none does. */
function closingQuote(text: string, opening: number): number {
  for (let i = text.indexOf('"', opening + 1); i !== -1; i = text.indexOf('"', i + 1)) {
    let backslashes = 0;
    while (text[i - 1 - backslashes] === "\\") backslashes++;
    if (backslashes % 2 === 0) return i;
  }
  return text.length;
}
