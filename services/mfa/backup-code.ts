import { randomInt } from "node:crypto";
import type { Call } from "../call.ts";
import type { Cipher } from "../crypto/cipher.ts";
import { replaceBackupCodes, takeBackupCode } from "../store/backup-codes.ts";

/** Codes of a set. */
const COUNT = 10;
/** Unambiguous digits and letters: neither 0 and O, nor 1, I and L, nor U and V. */
const ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ";
const GROUP = 4;

/** Creates a new set of backup codes, which replaces the old one. Only keyed digests are stored. Lock the user first. */
export async function createBackupCodeSet(call: Pick<Call, "em" | "cipher">, userId: string): Promise<string[]> {
  const codes = new Set<string>();
  while (codes.size < COUNT) codes.add(`${randomGroup()}-${randomGroup()}`);
  const digests = [...codes].map((code) => digestOf(call.cipher, userId, code));
  await replaceBackupCodes(call, userId, digests);
  return [...codes];
}

/** Consumes a code, in any case and with or without its hyphen. @returns how many are left; undefined if it is wrong. */
export function consumeBackupCode(
  call: Pick<Call, "em" | "cipher">,
  userId: string,
  code: string,
): Promise<number | undefined> {
  return takeBackupCode(call, userId, digestOf(call.cipher, userId, code));
}

/** A keyed digest: without the key, which is not in the database, the 40 bits of a code can't be guessed offline. */
function digestOf(cipher: Cipher, userId: string, code: string): string {
  const normal = code.toUpperCase().replace(/[\s-]/g, "");
  return cipher.mac(`${userId} ${normal}`, "backup-code").toString("base64url");
}

function randomGroup(): string {
  return Array.from({ length: GROUP }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
}
