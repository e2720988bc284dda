import { defineEntity, type InferEntity, p } from "@mikro-orm/core";
import type { Db } from "./statement.ts";
import { LOCKS } from "./store.ts";

/** An Ed25519 key pair for signing tokens. */
export const SigningKey = defineEntity({
  name: "SigningKey",
  tableName: "signing_keys",
  properties: {
    kid: p.string().primary(),
    publicKey: p.string(), // base64url, as in a JWK's `x`
    privateKey: p.string().hidden(), // encrypted
    createdAt: p.datetime(),
    activeAt: p.datetime(), // signs from this time until that of the next key
  },
});
export interface SigningKey extends InferEntity<typeof SigningKey> {}

export type NewSigningKey = Pick<
  SigningKey,
  "kid" | "publicKey" | "privateKey" | "createdAt" | "activeAt"
>;

/**
 * Inserts a key unless one was created after `youngEnough`. The advisory lock keeps processes that
 * start together from each inserting one. The very first key signs immediately, later ones from
 * `activeAt` on.
 */
export async function insertSigningKey(
  { em }: Db,
  key: NewSigningKey,
  youngEnough: Date,
): Promise<void> {
  await em.transactional(async () => {
    await em.execute("select pg_advisory_xact_lock(:makeKey)", LOCKS);
    const [newest] = await em.find(SigningKey, {}, { orderBy: { createdAt: "desc" }, limit: 1 });
    if (newest && newest.createdAt > youngEnough) return;
    await em.insert(SigningKey, newest ? key : { ...key, activeAt: key.createdAt });
  });
}

/** The ids of all keys, to find out whether one was added or deleted. */
export async function readKeyIds({ em }: Db): Promise<string[]> {
  const keys = await em.find(SigningKey, {}, { fields: ["kid"] });
  return keys.map(({ kid }) => kid);
}

/**
 * Replaces all keys with one that signs immediately. Joins the caller's transaction, and waits for
 * a key that is being added.
 * @returns the number of deleted keys
 */
export async function replaceSigningKeys({ em }: Db, key: NewSigningKey): Promise<number> {
  await em.execute("select pg_advisory_xact_lock(:makeKey)", LOCKS);
  const deleted = await em.nativeDelete(SigningKey, {});
  await em.insert(SigningKey, { ...key, activeAt: key.createdAt });
  return deleted;
}

/** Deletes keys whose successor became active at or before the given time. */
export async function deleteRetiredKeys({ em }: Db, before: Date): Promise<void> {
  await em.execute(
    `delete from signing_keys as k
     where exists (select from signing_keys s where s.active_at > k.active_at and s.active_at <= :before)`,
    { before },
  );
}
