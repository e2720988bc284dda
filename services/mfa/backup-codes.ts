import { randomInt } from "node:crypto";
import type { Call } from "../call.ts";
import type { Cipher } from "../crypto/cipher.ts";

/** Codes of a set. */
const COUNT = 10;
/** Digits and letters that nobody takes for each other: neither 0 and O nor 1, I and L, nor U and V. */
const ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ";
const GROUP = 4;

/** Makes a new set of backup codes, the old one void; only keyed digests are kept. Lock the user first. */
export async function replaceBackupCodes(call: Pick<Call, "em" | "cipher">, userId: string): Promise<string[]> {
  const codes = new Set<string>();
  while (codes.size < COUNT) codes.add(`${randomGroup()}-${randomGroup()}`);
  await removeBackupCodes(call, userId);
  const digests = [...codes].map((code) => digestOf(call.cipher, userId, code));
  await call.em.execute("insert into backup_codes (user_id, digest) select ?, jsonb_array_elements_text(?::jsonb)", [
    userId,
    JSON.stringify(digests),
  ]);
  return [...codes];
}

/** Uses a code up, in whatever case and with or without its hyphen. @returns how many are left; undefined: no such code. */
export async function consumeBackupCode(
  call: Pick<Call, "em" | "cipher">,
  userId: string,
  code: string,
): Promise<number | undefined> {
  const used = await call.em.execute<unknown[]>(
    "delete from backup_codes where user_id = ? and digest = ? returning user_id",
    [userId, digestOf(call.cipher, userId, code)],
  );
  if (used.length === 0) return undefined;
  const [row] = await call.em.execute<{ left: number }[]>(
    "select count(*)::int as left from backup_codes where user_id = ?",
    [userId],
  );
  return row?.left ?? 0;
}

/** Makes every backup code of a user void. */
export async function removeBackupCodes(call: Pick<Call, "em">, userId: string): Promise<void> {
  await call.em.execute("delete from backup_codes where user_id = ?", [userId]);
}

/** A keyed digest: without the key, which is not in the database, 40 bits can't be tried out. */
function digestOf(cipher: Cipher, userId: string, code: string): string {
  const normal = code.toUpperCase().replace(/[\s-]/g, "");
  return cipher.mac(`${userId} ${normal}`, "backup-code").toString("base64url");
}

function randomGroup(): string {
  return Array.from({ length: GROUP }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
}
