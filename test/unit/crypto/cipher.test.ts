import { describe, expect, test } from "vitest";
import { createCipher } from "../../../services/crypto/cipher.ts";

const [older, newer] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
const cipher = createCipher(older);
const SECRET = "JBSWY3DPEHPK3PXP";
const ROW = "totp 1";
const sealed = cipher.encrypt(SECRET, ROW);

/** The text with one bit of a byte flipped. */
function flipped(text: string, at: number): string {
  const bytes = Buffer.from(text, "base64url");
  bytes[at] = (bytes.at(at) ?? 0) ^ 1;
  return bytes.toString("base64url");
}

describe("Cipher", () => {
  test("decrypts what it encrypted, and never produces the same ciphertext twice", () => {
    expect(cipher.decrypt(sealed, ROW)).toBe(SECRET);
    expect(cipher.encrypt(SECRET, ROW)).not.toBe(sealed);
  });

  const last = Buffer.from(sealed, "base64url").length - 1;
  test.each([
    { what: "in another row", text: sealed, context: "totp 2" },
    { what: "with another nonce", text: flipped(sealed, 0), context: ROW },
    { what: "with another tag", text: flipped(sealed, 12), context: ROW },
    { what: "with another body", text: flipped(sealed, last), context: ROW },
    { what: "without its end", text: sealed.slice(0, -4), context: ROW },
    { what: "cut off in its tag", text: sealed.slice(0, 24), context: ROW },
    { what: "that is empty", text: "", context: ROW },
    { what: "with the id of another key", text: `00000000.${sealed}`, context: ROW },
    { what: "with an empty id", text: `.${sealed}`, context: ROW },
  ])("does not decrypt a text $what", ({ text, context }) => {
    expect(() => cipher.decrypt(text, context)).toThrow("no key of SECRET_KEY decrypts this text");
  });

  test("with several keys, encrypts with the first and decrypts with any", () => {
    const both = createCipher(newer, older);
    const renewed = both.encrypt(SECRET, ROW);
    expect(both.decrypt(sealed, ROW)).toBe(SECRET);
    expect(renewed.startsWith(both.prefix as string)).toBe(true);
    expect(createCipher(newer).decrypt(renewed, ROW)).toBe(SECRET);
    expect(() => cipher.decrypt(renewed, ROW)).toThrow();
    const renamed = renewed.replace(/^./, (digit) => (digit === "0" ? "1" : "0"));
    expect(() => both.decrypt(renamed, ROW)).toThrow();
  });

  test("verifies a keyed digest of any of its keys, in its context only", () => {
    const mac = cipher.mac("id", "a");
    expect(createCipher(newer, older).isMac("id", "a", mac)).toBe(true);
    expect(createCipher(newer).isMac("id", "a", mac)).toBe(false);
    expect(cipher.isMac("id", "b", mac)).toBe(false);
    expect(cipher.isMac("id", "a", mac.subarray(0, 16))).toBe(false);
  });
});
