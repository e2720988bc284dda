import { getRandomValues } from "node:crypto";
import { v7 } from "uuid";

const BYTES = 16;
/** Randomness is fetched for many ids at once: one by one costs more than all the rest of an id. */
const pool = new Uint8Array(256 * BYTES);
let used = pool.length;

/** A new id of a row (UUID version 7, RFC 9562 section 5.7): those of later rows sort after it. */
export function newId(now: Date): string {
  if (used === pool.length) {
    getRandomValues(pool);
    used = 0;
  }
  const random = pool.subarray(used, used + BYTES);
  used += BYTES;
  return v7({ msecs: now.getTime(), random });
}
