import { createPrivateKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import type { JWTPayload } from "jose";
import type { Cipher } from "../crypto/cipher.ts";
import { type AdmitWait, createReload, importPublicKey } from "../platform/gate/access-token.ts";
import type { Clock } from "../platform/process/clock.ts";
import { newId } from "../store/ids.ts";
import {
  deleteRetiredKeys,
  insertSigningKey,
  type NewSigningKey,
  readKeyIds,
  replaceSigningKeys,
  SigningKey,
} from "../store/signing-keys.ts";
import type { Db } from "../store/statement.ts";
import { readDatabaseTime, type Store } from "../store/store.ts";

/** How long a key signs, in ms. */
const KEY_AGE_MS = 90 * 24 * 3_600_000;
/**
 * Time for which a key is published before it signs, and after its last token has expired, in ms.
 */
const OVERLAP_MS = 3_600_000;

/** The Ed25519 keys that tokens are signed with, shared by every process through the database. */
export type KeyRing = Awaited<ReturnType<typeof openKeyRing>>;

/**
 * Loads the keys and adds the first one; processes that start together agree on it.
 * @param longestTokenMs longest lifetime of a token, in ms: a key is kept until its last token has
 * expired.
 */
export async function openKeyRing(
  store: Store,
  cipher: Cipher,
  clock: Clock,
  longestTokenMs: number,
) {
  let loadedAt = clock.now();
  let keys = await load(store, cipher);
  let verifiedTokens = new Map<string, JWTPayload>();
  const adopt = async () => {
    const now = clock.now();
    const loaded = await load(store, cipher);
    if (lacksAny(loaded, keys)) verifiedTokens = new Map();
    loadedAt = now;
    keys = loaded;
  };
  const reload = createReload(adopt);
  const rotate = async (now = clock.now()) => {
    await deleteRetiredKeys(
      { em: store.fork() },
      new Date(now.getTime() - longestTokenMs - OVERLAP_MS),
    );
    await addSigningKey({ em: store.fork() }, cipher, now, new Date(now.getTime() - KEY_AGE_MS));
    await reload();
  };
  const makeFirst = async () => {
    const databaseTime = await readDatabaseTime({ em: store.fork() });
    await rotate(earlier(clock.now(), databaseTime)); // one from the future would put off its successor
  };
  if (keys.length === 0) await makeFirst();
  const find = (kid: string) => keys.find((key) => key.kid === kid);
  return {
    /** The key that signs tokens issued at that time, so that a rebuilt token is identical. */
    signingKeyAt(issuedAt: Date) {
      const key = keys.findLast((k) => k.activeAt <= issuedAt) ?? keys[0];
      if (!key) throw new Error("the key ring is empty");
      return key;
    },
    async verificationKey(kid: string, admitWait?: AdmitWait) {
      if (!find(kid)) await reload(admitWait);
      return find(kid)?.publicKey;
    },
    /**
     * Every public key, for the JSON Web Key Set. A key that signs is among them, whichever process
     * uses it.
     */
    async jwks() {
      if (clock.now().getTime() - loadedAt.getTime() > OVERLAP_MS / 2)
        await reload().catch(() => {}); // it was suspended
      return keys.map(({ kid, x }) => ({ kid, x }));
    },
    get verifiedTokens() {
      return verifiedTokens;
    },
    /**
     * Loads the keys if another process has changed them. Forgets the tokens that were verified
     * with a deleted one: it may have leaked.
     */
    async watch() {
      const kids = await readKeyIds({ em: store.fork() });
      if (kids.length === 0) return makeFirst();
      const isSame = kids.length === keys.length && kids.every((kid) => find(kid));
      if (!isSame) await adopt();
    },
    /**
     * Adds the next key when it is due at a time, and deletes those that no valid token is signed
     * with.
     */
    rotate,
  };
}

/** Whether a key was deleted. */
const lacksAny = (loaded: { kid: string }[], before: { kid: string }[]) =>
  before.some(({ kid }) => !loaded.some((key) => key.kid === kid));

const earlier = (one: Date, other: Date) => (one < other ? one : other);

/** Loads the keys in the order in which they become active. */
async function load(store: Store, cipher: Cipher) {
  const rows = await store
    .fork()
    .find(SigningKey, {}, { orderBy: { activeAt: "asc", kid: "asc" } });
  const keys = rows.map(async ({ kid, activeAt, publicKey: x, privateKey: sealed }) => {
    const privateKey = decryptPrivateKey(cipher, kid, sealed);
    return { kid, activeAt, x, publicKey: await importPublicKey(x), privateKey };
  });
  return Promise.all(keys);
}

/**
 * Adds a key, unless one was created after `youngEnough`. It signs once every process has loaded
 * it.
 */
export async function addSigningKey(
  db: Db,
  cipher: Cipher,
  now: Date,
  youngEnough = now,
): Promise<void> {
  await insertSigningKey(db, makeKey(cipher, now), youngEnough);
}

/**
 * Withdraws all keys, of which one may have leaked, and makes a new one that signs at once. Joins
 * the caller's transaction.
 * @returns how many were withdrawn
 */
export const withdrawSigningKeys = (db: Db, cipher: Cipher, now: Date): Promise<number> =>
  replaceSigningKeys(db, makeKey(cipher, now));

function makeKey(cipher: Cipher, now: Date): NewSigningKey {
  const jwk = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const kid = newId(now);
  const privateKey = cipher.encrypt(JSON.stringify(jwk), kid);
  const activeAt = new Date(now.getTime() + OVERLAP_MS); // every process and verifier has loaded it by then
  return { kid, publicKey: jwk.x as string, privateKey, createdAt: now, activeAt };
}

function decryptPrivateKey(cipher: Cipher, kid: string, sealed: string): KeyObject {
  try {
    return createPrivateKey({ key: JSON.parse(cipher.decrypt(sealed, kid)), format: "jwk" });
  } catch {
    throw new Error(
      "SECRET_KEY is not the one that this database's signing keys were encrypted with.",
    );
  }
}
