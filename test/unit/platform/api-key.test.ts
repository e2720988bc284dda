import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { createApiKey, digestOfKey, isApiKey } from "../../../services/platform/gate/api-key.ts";
import { times } from "../../support/tally.ts";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Reads base 62. */
const numberOf = (digits: string) =>
  [...digits].reduce((value, digit) => value * 62 + ALPHABET.indexOf(digit), 0);

test("API key: has a prefix, 32 random characters, and the CRC-32 of these in base 62", () => {
  const { key } = createApiKey();
  expect(key).toMatch(/^sk-gate-[0-9A-Za-z]{38}$/);
  expect(isApiKey(key)).toBe(true);
  expect(numberOf(key.slice(-6))).toBe(crc32(key.slice(0, -6)));
});

test("API key: is found by its SHA-256, and recognized by its first and last random characters", () => {
  const { key, digest, hint } = createApiKey();
  expect(digest).toBe(createHash("sha256").update(key).digest("hex"));
  expect(digestOfKey(key)).toBe(digest);
  expect(hint).toBe(`${key.slice(8, 12)}...${key.slice(36, 40)}`);
});

test("API key: uses all characters about equally often, at every position", () => {
  const keys = times(62 * 40, () => createApiKey().key.slice(8, 40));
  for (const place of [0, 15, 31]) {
    const counts = Map.groupBy(keys, (random) => random[place]);
    expect(counts.size).toBe(62);
    for (const found of counts.values()) expect(found.length).toBeGreaterThan(10); // 40 are expected
  }
});

test("API key: a text with a changed, missing or additional character is not a key, and causes no look-up", () => {
  const { key } = createApiKey();
  for (let i = 8; i < key.length; i++) {
    const other = key[i] === "A" ? "B" : "A";
    expect(digestOfKey(key.slice(0, i) + other + key.slice(i + 1)), `at ${i}`).toBeUndefined();
    expect(digestOfKey(key.slice(0, i) + key.slice(i + 1))).toBeUndefined();
  }
  for (const wrong of [
    "",
    "sk-gate-",
    `${key}A`,
    ` ${key}`,
    `${key}\n`,
    key.toLowerCase(),
    "sk-abc",
  ])
    expect(digestOfKey(wrong)).toBeUndefined();
});
