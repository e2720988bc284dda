import { type Db, firstRow, oneRow, returnsRow } from "./statement.ts";

/** An account at a sign-in provider that is connected to a user. */
export type Identity = {
  id: string;
  userId: string;
  /** Id of the provider in this deployment. */
  provider: string;
  issuer: string;
  subject: string;
  /** The address that the provider has reported most recently. */
  email: string | null;
  createdAt: Date;
  lastUsedAt: Date | null;
};

/** What identifies an account at a provider. */
export type IdentityKey = Pick<Identity, "issuer" | "subject">;

const COLUMNS = `id, user_id as "userId", provider, issuer, subject, email, created_at as "createdAt",
  last_used_at as "lastUsedAt"`;

/**
 * Inserts an identity.
 * @returns false if a user already has it
 */
export const insertIdentity = (db: Db, identity: Identity): Promise<boolean> =>
  returnsRow(
    db,
    `insert into identities (id, user_id, provider, issuer, subject, email, created_at, last_used_at)
     values (:id, :userId, :provider, :issuer, :subject, :email, :createdAt, :lastUsedAt)
     on conflict (issuer, subject) do nothing returning id`,
    identity,
  );

/** Finds an identity by its issuer and subject. */
export const findIdentity = (db: Db, key: IdentityKey): Promise<Identity | undefined> =>
  firstRow(
    db,
    `select ${COLUMNS} from identities where issuer = :issuer and subject = :subject`,
    key,
  );

/** Lists the identities of a user, newest first. */
export const listIdentities = ({ em }: Db, userId: string): Promise<Identity[]> =>
  em.execute(
    `select ${COLUMNS} from identities where user_id = :userId order by created_at desc, id desc`,
    { userId },
  );

/** Counts the identities of a user at the given providers. */
export const countIdentities = async (
  db: Db,
  userId: string,
  providers: readonly string[],
): Promise<number> =>
  (
    await oneRow<{ identities: number }>(
      db,
      `select count(*)::int as identities from identities
       where user_id = :userId and provider = any(string_to_array(:providers, ','))`,
      { userId, providers: providers.join(",") },
    )
  ).identities;

/**
 * Records a use of an identity and the address that its provider reports. Lock the user first.
 * @returns false if it was removed in the meantime
 */
export const useIdentity = (
  db: Db,
  use: Pick<Identity, "id" | "email"> & { now: Date },
): Promise<boolean> =>
  returnsRow(
    db,
    "update identities set last_used_at = :now, email = :email where id = :id returning id",
    use,
  );

/**
 * Deletes an identity of a user.
 * @returns undefined if that user has no such identity
 */
export const deleteIdentity = (
  db: Db,
  { id, userId }: Pick<Identity, "id" | "userId">,
): Promise<Identity | undefined> =>
  firstRow(db, `delete from identities where id = :id and user_id = :userId returning ${COLUMNS}`, {
    id,
    userId,
  });

/** Deletes the identities of a user: all, or those connected at or after `since`. */
export async function deleteIdentities({ em }: Db, userId: string, since?: Date): Promise<void> {
  await em.execute(
    "delete from identities where user_id = :userId and created_at >= coalesce(:since::timestamptz, created_at)",
    { userId, since: since ?? null },
  );
}
