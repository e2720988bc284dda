import { createPrivateKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import type { JWTPayload } from "jose";
import type { Cipher } from "../crypto/cipher.ts";
import { createReload, importPublicKey } from "../platform/access-token.ts";
import type { Clock } from "../platform/process.ts";
import { deleteRetiredKeys, insertSigningKey, SigningKey } from "../store/signing-keys.ts";
import { type Db, newId, readDatabaseTime, type Store } from "../store/store.ts";

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
  let [loadedAt, keys] = [clock.now(), await load(store, cipher)];
  const reload = createReload(async () => {
    [loadedAt, keys] = [clock.now(), await load(store, cipher)];
  });
  const rotate = async (now = clock.now()) => {
    await deleteRetiredKeys(
      { em: store.fork() },
      new Date(now.getTime() - longestTokenMs - OVERLAP_MS),
    );
    await addSigningKey({ em: store.fork() }, cipher, now, new Date(now.getTime() - KEY_AGE_MS));
    await reload();
  };
  if (keys.length === 0)
    await rotate(earlier(clock.now(), await readDatabaseTime({ em: store.fork() })));
  const find = (kid: string) => keys.find((key) => key.kid === kid);
  return {
    /** The key that signs tokens issued at that time, so that a rebuilt token is identical. */
    signingKeyAt(issuedAt: Date) {
      const key = keys.findLast((k) => k.activeAt <= issuedAt) ?? keys[0];
      if (!key) throw new Error("the key ring is empty");
      return key;
    },
    async verificationKey(kid: string) {
      if (!find(kid)) await reload();
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
    verifiedTokens: new Map<string, JWTPayload>(),
    /**
     * Adds the next key when it is due at a time, and deletes those that no valid token is signed
     * with.
     */
    rotate,
  };
}

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
  const jwk = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const kid = newId(now);
  const privateKey = cipher.encrypt(JSON.stringify(jwk), kid);
  const activeAt = new Date(now.getTime() + OVERLAP_MS); // every process and verifier has loaded it by then
  await insertSigningKey(
    db,
    { kid, publicKey: jwk.x as string, privateKey, createdAt: now, activeAt },
    youngEnough,
  );
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
