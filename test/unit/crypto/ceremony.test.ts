import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { beginCeremony, readCeremony } from "../../../services/crypto/ceremony.ts";
import { createCipher } from "../../../services/crypto/cipher.ts";
import { newId } from "../../../services/store/ids.ts";

const [key, other] = [randomBytes(32), randomBytes(32)];
const cipher = createCipher(key);
const now = new Date("2026-11-28T12:00:00Z");
const later = (ms: number) => new Date(now.getTime() + ms);
const begin = () => beginCeremony(cipher, newId(now), "passkey sign-in");

test("Ceremony: has 32 bytes, and is valid for 5 minutes and with clocks 30 seconds behind", () => {
  const bytes = begin();
  expect(bytes).toHaveLength(32);
  const read = (at: Date) => readCeremony(cipher, bytes, "passkey sign-in", at);
  for (const ms of [-30_000, 0, 299_999]) expect(read(later(ms))).toBeDefined();
  for (const ms of [-30_001, 300_000]) expect(read(later(ms))).toBeUndefined();
});

test("Ceremony: is valid only for its purpose, and with a key of the deployment", () => {
  const bytes = begin();
  expect(readCeremony(cipher, bytes, "passkey register x", now)).toBeUndefined();
  expect(readCeremony(createCipher(other), bytes, "passkey sign-in", now)).toBeUndefined();
  const rotated = createCipher(other, key);
  expect(readCeremony(rotated, bytes, "passkey sign-in", now)).toBeDefined();
});

test("Ceremony: a changed bit or another length is rejected", () => {
  const bytes = begin();
  for (let bit = 0; bit < 256; bit++) {
    const changed = Buffer.from(bytes);
    changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    expect(readCeremony(cipher, changed, "passkey sign-in", now)).toBeUndefined();
  }
  for (const length of [0, 16, 31]) {
    const cut = bytes.subarray(0, length);
    expect(readCeremony(cipher, cut, "passkey sign-in", now)).toBeUndefined();
  }
});
