import { getRandomValues } from "node:crypto";
import { v7 } from "uuid";

/** Length of an id in bytes. */
export const ID_BYTES = 16;
/** Random bytes are fetched for many ids at once: one by one costs more than the rest of an id. */
const pool = new Uint8Array(256 * ID_BYTES);
let used = pool.length;

/** Creates an id of a row (UUID version 7, RFC 9562 section 5.7). Ids of later rows sort after it. */
export function newId(now: Date): string {
  if (used === pool.length) {
    getRandomValues(pool);
    used = 0;
  }
  const random = pool.subarray(used, used + ID_BYTES);
  used += ID_BYTES;
  return v7({ msecs: now.getTime(), random });
}

/** The lowest id of a moment, which is 1970 at the earliest: ids of earlier rows sort before it. */
export const lowestId = (at: Date): string =>
  v7({ msecs: Math.max(0, at.getTime()), random: new Uint8Array(ID_BYTES) });

/** An id as PostgreSQL writes it: callers may spell it in capitals (RFC 9562 section 4), which no comparison would match. */
export const canonicalId = (sent: string): string => sent.toLowerCase();

/** Encodes the first 16 bytes as an id, whether or not they are a UUID of any version. */
export function idOfBytes(bytes: Buffer): string {
  return bytes.toString("hex", 0, ID_BYTES).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** The bytes of an id, whether or not it is a UUID of any version. */
export function bytesOfId(id: string): Buffer {
  return Buffer.from(id.replaceAll("-", ""), "hex");
}
