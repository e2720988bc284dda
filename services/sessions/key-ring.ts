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

/** How long a key is used for signing, in ms. */
const KEY_AGE_MS = 90 * 24 * 3_600_000;
/**
 * How long a key is published before it signs, and kept after its last token has expired, in ms.
 */
const OVERLAP_MS = 3_600_000;

/** The Ed25519 keys for signing tokens, shared by all processes through the database. */
export type KeyRing = Awaited<ReturnType<typeof openKeyRing>>;

/**
 * Loads the keys and creates the first one; processes that start together agree on it.
 * @param longestTokenMs longest lifetime of any token, in ms: a key is kept until its last token
 * has expired.
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
    await rotate(earlier(clock.now(), databaseTime)); // a date in the future would delay its successor
  };
  if (keys.length === 0) await makeFirst();
  const find = (kid: string) => keys.find((key) => key.kid === kid);
  return {
    /**
     * The key that signed, or signs, tokens issued at the given time, so that a rebuilt token is
     * identical.
     */
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
     * All public keys, for the JSON Web Key Set. They include every key that any process signs
     * with.
     */
    async jwks() {
      if (clock.now().getTime() - loadedAt.getTime() > OVERLAP_MS / 2)
        await reload().catch(() => {}); // the process was suspended
      return keys.map(({ kid, x }) => ({ kid, x }));
    },
    get verifiedTokens() {
      return verifiedTokens;
    },
    /**
     * Reloads the keys if another process has changed them. If a key was deleted, drops the cache
     * of verified tokens: the key may have leaked.
     */
    async watch() {
      const kids = await readKeyIds({ em: store.fork() });
      if (kids.length === 0) return makeFirst();
      const isSame = kids.length === keys.length && kids.every((kid) => find(kid));
      if (!isSame) await adopt();
    },
    /**
     * Adds the next key if it is due at the given time, and deletes keys that no valid token is
     * signed with.
     */
    rotate,
  };
}

/** Whether a key has been deleted. */
const lacksAny = (loaded: { kid: string }[], before: { kid: string }[]) =>
  before.some(({ kid }) => !loaded.some((key) => key.kid === kid));

const earlier = (one: Date, other: Date) => (one < other ? one : other);

/** Loads the keys, in the order in which they become active. */
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
 * Adds a key unless one was created after `youngEnough`. It is used for signing once every process
 * has loaded it.
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
 * Withdraws all keys because one may have leaked, and creates a new one that signs immediately.
 * Joins the caller's transaction.
 * @returns the number of withdrawn keys
 */
export const withdrawSigningKeys = (db: Db, cipher: Cipher, now: Date): Promise<number> =>
  replaceSigningKeys(db, makeKey(cipher, now));

function makeKey(cipher: Cipher, now: Date): NewSigningKey {
  const jwk = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const kid = newId(now);
  const privateKey = cipher.encrypt(JSON.stringify(jwk), kid);
  const activeAt = new Date(now.getTime() + OVERLAP_MS); // by then, every process and verifier has loaded it
  return { kid, publicKey: jwk.x as string, privateKey, createdAt: now, activeAt };
}

function decryptPrivateKey(cipher: Cipher, kid: string, sealed: string): KeyObject {
  try {
    return createPrivateKey({ key: JSON.parse(cipher.decrypt(sealed, kid)), format: "jwk" });
  } catch {
    throw new Error(
      "SECRET_KEY is not the key that this database's signing keys were encrypted with.",
    );
  }
}
