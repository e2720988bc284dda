/**
 * HTTP/2 frames of a hostile client (RFC 9113, RFC 7541). Node's own client would respect the
 * limits that the server announces.
 */
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME = { data: 0, headers: 1, rstStream: 3, settings: 4 };
const END_STREAM = 0x1;
const END_HEADERS = 0x4;
const CANCEL = 8;
/** The largest value of a 7-bit integer before it continues in further bytes (RFC 7541, 5.1). */
const SEVEN_BITS = 127;

function frame(type: number, flags: number, streamId: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

function lengthOf(text: string): Buffer {
  const length = Buffer.byteLength(text);
  if (length < SEVEN_BITS) return Buffer.from([length]);
  const bytes = [SEVEN_BITS];
  let rest = length - SEVEN_BITS;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

/** A header block of literals without indexing (RFC 7541, 6.2.2). */
export function headerBlock(headers: Record<string, string>): Buffer {
  return Buffer.concat(
    Object.entries(headers).flatMap(([name, value]) => [
      Buffer.from([0]),
      ...[name, value].flatMap((text) => [lengthOf(text), Buffer.from(text)]),
    ]),
  );
}

/** The first bytes of a connection. */
export const opening = (): Buffer =>
  Buffer.concat([Buffer.from(PREFACE), frame(FRAME.settings, 0, 0, new Uint8Array())]);

/** A request without a body. */
export const wholeRequest = (streamId: number, block: Uint8Array): Buffer =>
  frame(FRAME.headers, END_HEADERS | END_STREAM, streamId, block);

/** The headers of a request and the beginning of its body. */
export const halfRequest = (streamId: number, block: Uint8Array, body = Buffer.alloc(1)): Buffer =>
  Buffer.concat([
    frame(FRAME.headers, END_HEADERS, streamId, block),
    frame(FRAME.data, 0, streamId, body),
  ]);

/** More of the body of a request. */
export const moreBody = (streamId: number, body = Buffer.alloc(1)): Buffer =>
  frame(FRAME.data, 0, streamId, body);

/** The headers of a request that its client resets immediately (CVE-2023-44487). */
export function resetRequest(streamId: number, block: Uint8Array): Buffer {
  const code = Buffer.alloc(4);
  code.writeUInt32BE(CANCEL);
  return Buffer.concat([
    frame(FRAME.headers, END_HEADERS, streamId, block),
    frame(FRAME.rstStream, 0, streamId, code),
  ]);
}
