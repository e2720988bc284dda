import { randomBytes } from "node:crypto";
import { v7 } from "uuid";
import { ID_BYTES } from "../platform/rpc/id-bytes.ts";

/**
 * Random bytes, generated for many ids at once: generating them per id would take longer than all
 * the rest.
 */
let pool = Buffer.alloc(0);

/**
 * Creates a row id (UUID version 7, RFC 9562 section 5.7). Ids of later rows sort after it.
 */
export function newId(now: Date): string {
  if (pool.length === 0) pool = randomBytes(256 * ID_BYTES);
  const random = pool.subarray(0, ID_BYTES);
  pool = pool.subarray(ID_BYTES);
  return v7({ msecs: now.getTime(), random });
}

/** The lowest id for a time, 1970 at the earliest: ids of earlier rows sort before it. */
export const lowestId = (at: Date): string =>
  v7({ msecs: Math.max(0, at.getTime()), random: new Uint8Array(ID_BYTES) });

/**
 * An id as PostgreSQL writes it. Callers may send upper case (RFC 9562 section 4), which would not
 * compare equal.
 */
export const canonicalId = (sent: string): string => sent.toLowerCase();
