import { createPrivateKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { importJWK, type JWTPayload } from "jose";
import type { Cipher } from "../crypto/cipher.ts";
import type { Clock } from "../platform/clock.ts";
import { newId } from "../store/ids.ts";
import { LOCKS } from "../store/locks.ts";
import { SigningKey } from "../store/signing-key.ts";
import type { Store } from "../store/store.ts";

/** A process asks the database for a key it does not know at most this often, in ms. */
const RELOAD_INTERVAL_MS = 1_000;
/** A key signs for so long, in ms. */
const KEY_AGE_MS = 90 * 24 * 3_600_000;
/** A key is published for so long before it signs, and kept for so long after its last token has ended, in ms. */
const OVERLAP_MS = 3_600_000;

type PublicKey = Awaited<ReturnType<typeof importJWK>>;
type Key = { kid: string; activeAt: Date; x: string; publicKey: PublicKey; privateKey: KeyObject };

/** The Ed25519 keys that tokens are signed with, shared by every process through the database. */
export type KeyRing = {
  /** The key that signs what was issued at that time: the same token comes out however often it is rebuilt. */
  signingKeyAt(issuedAt: Date): { kid: string; privateKey: KeyObject };
  /** The key of that name; undefined when no process has made it. @throws Error when the database can't be asked */
  verificationKey(kid: string): Promise<PublicKey | undefined>;
  /** Every public key, as in a JSON Web Key Set. */
  jwks(): { kid: string; x: string }[];
  /** Claims of tokens that these keys have signed here or verified, by whole text. */
  verifiedTokens: Map<string, JWTPayload>;
  /** Makes the next key when it is time, and forgets those that no living token is signed with. */
  rotate(): Promise<void>;
};

/**
 * Loads the keys and makes the first one; processes that start together agree on it.
 * @param longestTokenMs how long a token lives at most, in ms: a key is kept until its last one has ended.
 */
export async function openKeyRing(
  store: Store,
  cipher: Cipher,
  clock: Clock,
  longestTokenMs: number,
): Promise<KeyRing> {
  let keys = await load(store, cipher);
  let reloadedAt = Number.NEGATIVE_INFINITY;
  let reloaded = Promise.resolve();
  const reload = () => {
    if (performance.now() - reloadedAt >= RELOAD_INTERVAL_MS) {
      reloadedAt = performance.now();
      reloaded = load(store, cipher).then((loaded) => {
        keys = loaded;
      });
    }
    return reloaded; // who comes meanwhile waits for it too
  };
  const rotate = async () => {
    const now = clock.now();
    await deleteRetired(store, new Date(now.getTime() - longestTokenMs - OVERLAP_MS));
    await addNextKey(store, cipher, now);
    keys = await load(store, cipher);
  };
  if (keys.length === 0) await rotate();
  const find = (kid: string) => keys.find((key) => key.kid === kid);
  return {
    signingKeyAt(issuedAt) {
      const key = keys.findLast((k) => k.activeAt <= issuedAt) ?? keys[0];
      if (!key) throw new Error("the key ring is empty");
      return key;
    },
    async verificationKey(kid) {
      if (!find(kid)) await reload();
      return find(kid)?.publicKey;
    },
    jwks: () => keys.map(({ kid, x }) => ({ kid, x })),
    verifiedTokens: new Map(),
    rotate,
  };
}

/** In the order in which they came to sign. */
async function load(store: Store, cipher: Cipher): Promise<Key[]> {
  const rows = await store.fork().find(SigningKey, {}, { orderBy: { activeAt: "asc", kid: "asc" } });
  return Promise.all(
    rows.map(async ({ kid, activeAt, publicKey: x, privateKey }) => ({
      kid,
      activeAt,
      x,
      publicKey: await importJWK({ kty: "OKP", crv: "Ed25519", x }, "EdDSA"),
      privateKey: decryptPrivateKey(cipher, kid, privateKey),
    })),
  );
}

/**
 * Makes a key unless there is one that is young enough. It signs at once if it is the first; else so much later that
 * every process has loaded it by then, and every verifier that asks for the key set now and then has seen it.
 */
async function addNextKey(store: Store, cipher: Cipher, now: Date): Promise<void> {
  const youngEnough = new Date(now.getTime() - KEY_AGE_MS);
  const [young] = await store
    .fork()
    .execute<unknown[]>("select kid from signing_keys where created_at > ? limit 1", [youngEnough]);
  if (young) return;
  const jwk = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const kid = newId(now);
  await store.fork().transactional(async (tx) => {
    await tx.execute("select pg_advisory_xact_lock(?)", [LOCKS.makeKey]);
    await tx.execute(
      `insert into signing_keys (kid, public_key, private_key, created_at, active_at)
       select ?, ?, ?, ?::timestamptz, case when exists (select from signing_keys) then ?::timestamptz else ?::timestamptz end
       where not exists (select from signing_keys where created_at > ?)`,
      [
        kid,
        jwk.x,
        cipher.encrypt(JSON.stringify(jwk), kid),
        now,
        new Date(now.getTime() + OVERLAP_MS),
        now,
        youngEnough,
      ],
    );
  });
}

/** Removes the keys whose successor signs since before that time. */
async function deleteRetired(store: Store, before: Date): Promise<void> {
  await store.fork().execute(
    `delete from signing_keys as k
     where exists (select from signing_keys s where s.active_at > k.active_at and s.active_at <= ?)`,
    [before],
  );
}

function decryptPrivateKey(cipher: Cipher, kid: string, sealed: string): KeyObject {
  try {
    return createPrivateKey({ key: JSON.parse(cipher.decrypt(sealed, kid)), format: "jwk" });
  } catch {
    throw new Error("SECRET_KEY is not the one that this database's signing keys were encrypted with.");
  }
}
