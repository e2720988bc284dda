import { createPrivateKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { importJWK, type JWTPayload } from "jose";
import { v7 as uuid } from "uuid";
import type { Clock } from "../call.ts";
import type { Store } from "../store/orm.ts";
import { SigningKey } from "../store/signing-key.ts";
import type { Cipher } from "./cipher.ts";

/** A process asks the database for a key it does not know at most this often, in ms. */
const RELOAD_INTERVAL_MS = 1_000;
/** Any number: who makes the first key holds the advisory lock of this name. */
const FIRST_KEY_LOCK = 7_230_002;

type PublicKey = Awaited<ReturnType<typeof importJWK>>;
type Key = { kid: string; activeAt: Date; x: string; publicKey: PublicKey; privateKey: KeyObject };

/** The Ed25519 keys that tokens are signed with, shared by every process through the database. */
export type KeyRing = {
  /** The key that signs what was issued at that time: the same token comes out however often it is rebuilt. */
  signer(issuedAt: Date): { kid: string; privateKey: KeyObject };
  /** The key of that name; undefined when no process has made it. */
  verifier(kid: string): Promise<PublicKey | undefined>;
  /** Every public key, as in a JSON Web Key Set. */
  published(): { kid: string; x: string }[];
  /** Claims of tokens that these keys have verified, by kind and whole text. */
  verified: Map<string, JWTPayload>;
};

/** Loads the keys and makes the first one; processes that start together agree on it. */
export async function openKeyRing(store: Store, cipher: Cipher, clock: Clock): Promise<KeyRing> {
  let keys = await load(store, cipher);
  if (keys.length === 0) {
    await makeFirst(store, cipher, clock.now());
    keys = await load(store, cipher);
  }
  let loadedAt = 0;
  const reload = async () => {
    if (performance.now() - loadedAt < RELOAD_INTERVAL_MS) return;
    loadedAt = performance.now();
    keys = await load(store, cipher);
  };
  const find = (kid: string) => keys.find((key) => key.kid === kid);
  return {
    signer(issuedAt) {
      const key = keys.findLast((k) => k.activeAt <= issuedAt) ?? keys[0];
      if (!key) throw new Error("the key ring is empty");
      return key;
    },
    async verifier(kid) {
      if (!find(kid)) await reload();
      return find(kid)?.publicKey;
    },
    published: () => keys.map(({ kid, x }) => ({ kid, x })),
    verified: new Map(),
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
      privateKey: unseal(cipher, kid, privateKey),
    })),
  );
}

/** Makes the first key unless another process was faster. */
async function makeFirst(store: Store, cipher: Cipher, now: Date): Promise<void> {
  const jwk = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const kid = uuid();
  await store.fork().transactional(async (tx) => {
    await tx.execute("select pg_advisory_xact_lock(?)", [FIRST_KEY_LOCK]);
    await tx.execute(
      `insert into signing_keys (kid, public_key, private_key, created_at, active_at)
       select ?, ?, ?, ?, ? where not exists (select from signing_keys)`,
      [kid, jwk.x, cipher.encrypt(JSON.stringify(jwk), kid), now, now],
    );
  });
}

function unseal(cipher: Cipher, kid: string, sealed: string): KeyObject {
  try {
    return createPrivateKey({ key: JSON.parse(cipher.decrypt(sealed, kid)), format: "jwk" });
  } catch {
    throw new Error("SECRET_KEY is not the one that this database's signing keys were encrypted with.");
  }
}
