import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from "node:crypto";

/**
 * Operations with the deployment's secret keys, which are not stored in the database. The first key
 * is used for writing, all keys for reading.
 */
export type Cipher = ReturnType<typeof createCipher>;

const IV_BYTES = 12;

const TAG_BYTES = 16;

const MAC_BYTES = 32;

const ID_BYTES = 4;

/**
 * AES-256-GCM and HMAC-SHA-256 with keys derived from the secret keys.
 * @param secretKeys 32 bytes each, the current one first
 */
export function createCipher(...secretKeys: Buffer[]) {
  const keys = secretKeys.map(createKey);
  const [first] = keys;
  if (!first) throw new Error("no secret key");
  const macs = (text: string, context: string) => keys.map((key) => key.mac(text, context));
  const prefix = keys.length > 1 ? `${first.id}.` : undefined;
  return {
    /**
     * Encrypts a secret for storage. `context` binds it to its row and column: it cannot be
     * decrypted anywhere else.
     */
    encrypt: (text: string, context: string) => (prefix ?? "") + first.seal(text, context),
    /** @throws Error if the text was not encrypted with one of the keys for this context. */
    decrypt(sealed: string, context: string) {
      const end = sealed.indexOf(".");
      const id = end < 0 ? undefined : sealed.slice(0, end);
      const text = sealed.slice(end + 1);
      for (const key of keys) {
        if (id !== undefined && id !== key.id) continue;
        try {
          return key.open(text, context);
        } catch {
          // try the next key
        }
      }
      throw new Error("no key of SECRET_KEY decrypts this text");
    },
    /**
     * A keyed digest of 32 bytes (HMAC). Proves that a value was created by us, or hides a value
     * that could be guessed.
     */
    mac: first.mac,
    /**
     * The digests with each key, current key first, for checking values that were stored or mailed
     * earlier.
     */
    macs,
    /** Whether a keyed digest was made with one of our keys. */
    isMac: (text: string, context: string, given: Buffer) =>
      given.length === MAC_BYTES && macs(text, context).some((mac) => timingSafeEqual(mac, given)),
    /**
     * The prefix of texts encrypted with the current key if there are several keys; undefined with
     * one key.
     */
    prefix,
  };
}

/** The operations of one secret key, using keys derived from it (RFC 5869). */
function createKey(secretKey: Buffer) {
  const derive = (purpose: string) =>
    Buffer.from(hkdfSync("sha256", secretKey, "", `gatehouse ${purpose}`, 32));
  const encryption = createSecretKey(derive("encryption")); // Node would convert bytes at each use
  const authentication = createSecretKey(derive("mac"));
  return {
    id: derive("id").toString("hex", 0, ID_BYTES),
    mac: (text: string, context: string) =>
      createHmac("sha256", authentication).update(`${context}\0${text}`).digest(),
    seal(text: string, context: string): string {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv("aes-256-gcm", encryption, iv).setAAD(Buffer.from(context));
      const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return Buffer.concat([iv, cipher.getAuthTag(), body]).toString("base64url");
    },
    open(sealed: string, context: string): string {
      const bytes = Buffer.from(sealed, "base64url");
      const [iv, tag] = [
        bytes.subarray(0, IV_BYTES),
        bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES),
      ];
      const decipher = createDecipheriv("aes-256-gcm", encryption, iv, {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(Buffer.from(context)).setAuthTag(tag);
      return (
        decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES), undefined, "utf8") +
        decipher.final("utf8")
      );
    },
  };
}
