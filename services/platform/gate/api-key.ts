import { createHash, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";

/**
 * Prefix of API keys. Secret scanners look for it, and some clients of OpenAI's API require `sk-`.
 */
const PREFIX = "sk-gate-";
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** 190 bits, so neither a slow hash nor one that depends on `SECRET_KEY` is needed. */
const RANDOM_CHARACTERS = 32;
/** Enough for the 32 bits of a CRC. */
const CHECKSUM_CHARACTERS = 6;
const WELL_FORMED = new RegExp(
  `^${PREFIX}[0-9A-Za-z]{${RANDOM_CHARACTERS + CHECKSUM_CHARACTERS}}$`,
);
/** Number of random characters at each end by which people tell keys apart. */
const HINT_CHARACTERS = 4;

/** A new key. Only `digest` and `hint` are stored. */
export type NewKey = { key: string; digest: string; hint: string };

/** Creates a key: prefix, 32 random characters, and a checksum that detects typing errors. */
export function createApiKey(): NewKey {
  const pick = () => ALPHABET[randomInt(ALPHABET.length)];
  const random = Array.from({ length: RANDOM_CHARACTERS }, pick).join("");
  const key = withChecksum(PREFIX + random);
  const hint = `${random.slice(0, HINT_CHARACTERS)}...${random.slice(-HINT_CHARACTERS)}`;
  return { key, digest: digestOf(key), hint };
}

/** Whether a bearer token is meant as an API key, valid or not. */
export const isApiKey = (token: string): boolean => token.startsWith(PREFIX);

/**
 * The digest by which a key is looked up: its SHA-256 in hexadecimal.
 * @returns undefined for a text that cannot be a key, which needs no lookup
 */
export function digestOfKey(key: string): string | undefined {
  if (!WELL_FORMED.test(key)) return undefined;
  return withChecksum(key.slice(0, -CHECKSUM_CHARACTERS)) === key ? digestOf(key) : undefined;
}

const digestOf = (key: string) => createHash("sha256").update(key).digest("hex");

/** Appends the CRC-32 of a text in base 62, most significant digit first. */
function withChecksum(text: string): string {
  let rest = crc32(text);
  let digits = "";
  for (let i = 0; i < CHECKSUM_CHARACTERS; i++) {
    digits = ALPHABET[rest % ALPHABET.length] + digits;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return text + digits;
}
