import { timingSafeEqual } from "node:crypto";
import type { Cipher } from "../crypto/cipher.ts";

const CONTEXT = "email-code";
const DIGITS = 6;
/**
 * Bytes of the digest that make the code: so many that no code is likelier than another by more
 * than 1 in 2^28.
 */
const BYTES = 6;

/** The code of six digits in an e-mail: derived from the id of its token, never stored. */
export const emailCodeOf = (cipher: Cipher, tokenId: string): string =>
  digitsOf(cipher.mac(tokenId, CONTEXT));

/** Whether a code is that of a token. */
export const isEmailCode = (cipher: Cipher, tokenId: string, code: string): boolean =>
  cipher.macs(tokenId, CONTEXT).some((mac) => isEqual(digitsOf(mac), code));

const digitsOf = (mac: Buffer): string =>
  String(mac.readUIntBE(0, BYTES) % 10 ** DIGITS).padStart(DIGITS, "0");

const isEqual = (a: string, b: string) =>
  a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
