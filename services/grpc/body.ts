import { Code, ConnectError } from "@connectrpc/connect";
import type { Patience } from "./patience.ts";

/** Requests up to this size arrive however many large ones do, in bytes. */
const SMALL_BYTES = 32 * 1024;

const LATE = new ConnectError("late", Code.DeadlineExceeded);
const TOO_LARGE = new ConnectError("too large", Code.ResourceExhausted);
const TOO_MANY = new ConnectError("too many large ones", Code.Unavailable);

/** Reads a body to its end, and keeps `most` bytes at most. @throws ConnectError late, too large, one of too many */
export type ReadBody = (body: AsyncIterable<Uint8Array>, most: number) => Promise<Uint8Array>;

/**
 * Reads bodies of clients who are not authenticated yet. Even one that is far too large is read to its end: what is left
 * unread clogs the client's connection, since Node's clients never drop what they could not send.
 */
export function createBodyReader({ requestMs, arrivingBytes }: Patience): ReadBody {
  let arriving = 0;
  return async (body, most) => {
    let mine = 0;
    let isOver = false;
    const reserve = (bytes: number) => {
      if (isOver || arriving + bytes > arrivingBytes) throw TOO_MANY;
      arriving += bytes;
      mine += bytes;
    };
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(reject, requestMs, LATE);
    });
    try {
      return await Promise.race([gather(body, most, reserve), late]);
    } finally {
      clearTimeout(timer);
      isOver = true;
      arriving -= mine;
    }
  };
}

/** Puts the parts of a body together, however small they are. @param reserve is asked before much is kept */
async function gather(body: AsyncIterable<Uint8Array>, most: number, reserve: (bytes: number) => void) {
  let held = Buffer.alloc(0);
  let bytes = 0;
  for await (const part of body) {
    const start = bytes;
    bytes += part.length;
    if (bytes > most) continue;
    if (bytes > held.length) {
      const size = Math.max(bytes, 2 * held.length);
      if (size > SMALL_BYTES) reserve(size - held.length);
      held = Buffer.concat([held], size);
    }
    held.set(part, start);
  }
  if (bytes > most) throw TOO_LARGE;
  return held.subarray(0, bytes);
}
