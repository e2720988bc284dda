import { Code, ConnectError } from "@connectrpc/connect";
import type { Place } from "../process/room.ts";

const LATE = new ConnectError("late", Code.DeadlineExceeded);
const TOO_LARGE = new ConnectError("too large", Code.ResourceExhausted);
const TOO_MANY = new ConnectError("too many large ones", Code.Unavailable);

/** A body that is read, and what it may hold meanwhile. */
export type Incoming = {
  parts: AsyncIterable<Uint8Array>;
  /** The most that it may have, in bytes. */
  most: number;
  /** How many times larger it may become when it is read: it is compressed, unless that is 1. */
  growth: number;
  place: Place;
};

type Reading = { isOver: boolean; giveUp(): void };

/**
 * Reads bodies of clients who are not authenticated yet. Even one that is far too large is read to its end: what is left
 * unread clogs the client's connection, since Node's clients never drop what they could not send.
 * @throws ConnectError late, too large, one of too many
 */
export async function readBody(incoming: Incoming, requestMs: number): Promise<Uint8Array> {
  const { promise: givenUp, reject } = Promise.withResolvers<never>();
  const reading = {
    isOver: false,
    giveUp() {
      incoming.place.fit(0);
      reading.isOver = true;
      reject(TOO_MANY);
    },
  };
  const timer = setTimeout(reject, requestMs, LATE);
  try {
    return await Promise.race([gather(incoming, reading), givenUp]);
  } catch (thrown) {
    incoming.place.fit(0);
    throw thrown;
  } finally {
    clearTimeout(timer);
    reading.isOver = true;
  }
}

/** Puts the parts of a body together, however small they are. */
async function gather({ parts, most, growth, place }: Incoming, reading: Reading) {
  let held = Buffer.alloc(0);
  let bytes = 0;
  const reserve = (size: number, giveUp?: () => void) => {
    if (reading.isOver || !place.fit(Math.max(size, Math.min(most, growth * size)), giveUp)) throw TOO_MANY;
  };
  for await (const part of parts) {
    const start = bytes;
    bytes += part.length;
    if (bytes > most) continue;
    if (bytes > held.length) {
      const size = Math.max(bytes, 2 * held.length);
      reserve(size, reading.giveUp);
      held = Buffer.concat([held], size);
    }
    held.set(part, start);
  }
  if (bytes > most) throw TOO_LARGE;
  reserve(bytes);
  return held.subarray(0, bytes);
}
