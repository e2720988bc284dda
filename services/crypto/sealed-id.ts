import { timingSafeEqual } from "node:crypto";
import { bytesOfId, ID_BYTES, idOfBytes } from "../platform/rpc/id-bytes.ts";
import type { Cipher } from "./cipher.ts";

const MAC_BYTES = 16;

/**
 * An id and 128 bits of its keyed digest, 32 bytes. Proves that the id was created by us for a
 * context.
 */
export const sealId = (cipher: Cipher, id: string, context: string): Buffer =>
  join(id, cipher.mac(id, context));

const join = (id: string, mac: Buffer) =>
  Buffer.concat([bytesOfId(id), mac.subarray(0, MAC_BYTES)]);

/**
 * Opens a sealed id.
 * @returns undefined if it was not sealed with one of the keys for this context
 */
export function openSealedId(cipher: Cipher, sealed: Buffer, context: string): string | undefined {
  if (sealed.length !== ID_BYTES + MAC_BYTES) return undefined;
  const id = idOfBytes(sealed); // untrusted until the digest is compared
  const isOurs = cipher.macs(id, context).some((mac) => timingSafeEqual(sealed, join(id, mac)));
  return isOurs ? id : undefined;
}
