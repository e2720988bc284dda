import { type Db, firstRow, oneRow, returnsRow } from "./statement.ts";

/** A passkey of a user. Binary values are in base64url, as in WebAuthn. */
export type Passkey = {
  id: string;
  userId: string;
  credentialId: string;
  publicKey: string;
  /** COSE algorithm identifier (RFC 9053). */
  algorithm: number;
  signCount: number;
  transports: string[];
  /** Whether it may be synced to other devices, and whether it was at its last use. */
  backupEligible: boolean;
  backedUp: boolean;
  aaguid: string;
  rpId: string;
  name: string;
  createdAt: Date;
  lastUsedAt: Date | null;
};

/** Binary values are sent to both engines as hexadecimal text. */
const toHex = (base64url: string) => Buffer.from(base64url, "base64url").toString("hex");
const toBase64Url = (hex: string) => Buffer.from(hex, "hex").toString("base64url");

const COLUMNS = `id, user_id as "userId", encode(credential_id, 'hex') as "credentialId",
  encode(public_key, 'hex') as "publicKey", algorithm, sign_count::float8 as "signCount", transports,
  backup_eligible as "backupEligible", backed_up as "backedUp", aaguid, rp_id as "rpId", name,
  created_at as "createdAt", last_used_at as "lastUsedAt"`;

const decoded = (row: Passkey): Passkey => ({
  ...row,
  credentialId: toBase64Url(row.credentialId),
  publicKey: toBase64Url(row.publicKey),
});

/**
 * Inserts a passkey.
 * @returns false if a passkey with this credential id exists
 */
export const insertPasskey = (db: Db, passkey: Passkey): Promise<boolean> =>
  returnsRow(
    db,
    `insert into passkeys (id, user_id, credential_id, public_key, algorithm, sign_count, transports, backup_eligible,
       backed_up, aaguid, rp_id, name, created_at)
     values (:id, :userId, decode(:credentialId, 'hex'), decode(:publicKey, 'hex'), :algorithm, :signCount,
       string_to_array(:transports, ','), :backupEligible, :backedUp, :aaguid, :rpId, :name, :createdAt)
     on conflict (credential_id) do nothing returning id`,
    {
      ...passkey,
      credentialId: toHex(passkey.credentialId),
      publicKey: toHex(passkey.publicKey),
      transports: passkey.transports.join(","),
    },
  );

/** Lists the passkeys of a user at this relying party, newest first. */
export async function listPasskeys({ em }: Db, userId: string, rpId: string): Promise<Passkey[]> {
  const rows = await em.execute<Passkey[]>(
    `select ${COLUMNS} from passkeys where user_id = :userId and rp_id = :rpId order by created_at desc, id desc`,
    { userId, rpId },
  );
  return rows.map(decoded);
}

/** Finds a passkey by its credential id. */
export async function findPasskey(
  db: Db,
  credentialId: string,
  rpId: string,
): Promise<Passkey | undefined> {
  const row = await firstRow<Passkey>(
    db,
    `select ${COLUMNS} from passkeys where credential_id = decode(:credentialId, 'hex') and rp_id = :rpId`,
    { credentialId: toHex(credentialId), rpId },
  );
  return row && decoded(row);
}

/** Counts the passkeys of a user at this relying party. */
export const countPasskeys = async (db: Db, userId: string, rpId: string): Promise<number> =>
  (
    await oneRow<{ passkeys: number }>(
      db,
      "select count(*)::int as passkeys from passkeys where user_id = :userId and rp_id = :rpId",
      { userId, rpId },
    )
  ).passkeys;

/**
 * Records a use of a passkey. Lock the user first.
 * @returns false if it was removed in the meantime
 */
export const usePasskey = (
  db: Db,
  use: Pick<Passkey, "id" | "signCount" | "backedUp"> & { now: Date },
): Promise<boolean> =>
  returnsRow(
    db,
    `update passkeys set last_used_at = :now, sign_count = :signCount, backed_up = :backedUp where id = :id returning id`,
    use,
  );

/**
 * Renames a passkey of a user.
 * @returns undefined if that user has no such passkey
 */
export async function renamePasskey(
  db: Db,
  { id, userId, name }: Pick<Passkey, "id" | "userId" | "name">,
): Promise<Passkey | undefined> {
  const row = await firstRow<Passkey>(
    db,
    `update passkeys set name = :name where id = :id and user_id = :userId returning ${COLUMNS}`,
    { id, userId, name },
  );
  return row && decoded(row);
}

/**
 * Deletes a passkey of a user.
 * @returns undefined if that user has no such passkey
 */
export async function deletePasskey(
  db: Db,
  { id, userId }: Pick<Passkey, "id" | "userId">,
): Promise<Passkey | undefined> {
  const row = await firstRow<Passkey>(
    db,
    `delete from passkeys where id = :id and user_id = :userId returning ${COLUMNS}`,
    { id, userId },
  );
  return row && decoded(row);
}

/** Deletes the passkeys of a user: all, or those added at or after `since`. */
export async function deletePasskeys({ em }: Db, userId: string, since?: Date): Promise<void> {
  await em.execute(
    "delete from passkeys where user_id = :userId and created_at >= coalesce(:since::timestamptz, created_at)",
    { userId, since: since ?? null },
  );
}

/** Whether there are passkeys of another relying party, which can no longer be used. */
export const hasForeignPasskeys = (db: Db, rpId: string): Promise<boolean> =>
  returnsRow(db, "select id from passkeys where rp_id <> :rpId limit 1", { rpId });
