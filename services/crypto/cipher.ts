import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import { existsSync, linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../platform/config.ts";
import { makeDataFolder } from "../store/data-folder.ts";

/** Operations with the deployment's secret key, which is not in the database. */
export type Cipher = {
  /** Encrypts a secret for storage. `context` binds it to its row and column: it decrypts nowhere else. */
  encrypt(text: string, context: string): string;
  /** @throws Error when the text was not encrypted by this key for this context. */
  decrypt(sealed: string, context: string): string;
  /** A keyed digest of 32 bytes: proves that a value is ours, or hides one that could be guessed. */
  mac(text: string, context: string): Buffer;
  /** Whether a keyed digest is ours. */
  isMac(text: string, context: string, mac: Buffer): boolean;
};

const IV_BYTES = 12;
const TAG_BYTES = 16;
const MAC_BYTES = 32;

/** AES-256-GCM and HMAC-SHA-256 with keys derived from the secret key (RFC 5869). @param secretKey 32 bytes. */
export function createCipher(secretKey: Buffer): Cipher {
  const derive = (purpose: string) => Buffer.from(hkdfSync("sha256", secretKey, "", `gatehouse ${purpose}`, 32));
  const encryptionKey = derive("encryption");
  const macKey = derive("mac");
  const mac = (text: string, context: string) => createHmac("sha256", macKey).update(`${context}\0${text}`).digest();
  return {
    encrypt(text, context) {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv("aes-256-gcm", encryptionKey, iv).setAAD(Buffer.from(context));
      const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return Buffer.concat([iv, cipher.getAuthTag(), body]).toString("base64url");
    },
    decrypt(sealed, context) {
      const bytes = Buffer.from(sealed, "base64url");
      const decipher = createDecipheriv("aes-256-gcm", encryptionKey, bytes.subarray(0, IV_BYTES), {
        authTagLength: TAG_BYTES,
      })
        .setAAD(Buffer.from(context))
        .setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
      return decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES), undefined, "utf8") + decipher.final("utf8");
    },
    mac,
    isMac: (text, context, given) => given.length === MAC_BYTES && timingSafeEqual(mac(text, context), given),
  };
}

/** The cipher of a deployment that has a secret key. Undefined where the service would generate one. */
export function openExistingCipher(config: Pick<Config, "secretKey" | "dataDir">): Cipher | undefined {
  const exists = config.secretKey !== undefined || existsSync(join(config.dataDir, KEY_FILE));
  return exists ? createCipher(readSecretKey(config)) : undefined;
}

const BYTES = 32;
const KEY_FILE = "secret-key";

/** The deployment's secret key: `SECRET_KEY`, or one generated once into `DATA_DIR` (mode 600). @returns 32 bytes */
export function readSecretKey({ secretKey, dataDir }: Pick<Config, "secretKey" | "dataDir">): Buffer {
  if (secretKey) return Buffer.from(secretKey, "base64");
  const file = join(dataDir, KEY_FILE);
  const draft = `${file}.${process.pid}`;
  makeDataFolder(dataDir);
  writeFileSync(draft, randomBytes(BYTES).toString("base64"), { mode: 0o600 });
  try {
    linkSync(draft, file); // atomic; of several processes the first one wins
  } catch {
    // it exists and is the key
  } finally {
    rmSync(draft, { force: true });
  }
  const key = Buffer.from(readFileSync(file, "utf8"), "base64");
  if (key.length !== BYTES) throw new Error(`${file} does not hold ${BYTES} bytes in base64.`);
  return key;
}
