import { defineEntity, type OptionalProps, p } from "@mikro-orm/core";
import type { Db } from "./store.ts";

const table = defineEntity({
  name: "User",
  tableName: "users",
  properties: {
    id: p.uuid().primary(),
    email: p.string(), // as typed; mail goes here
    canonicalEmail: p.string().unique(),
    name: p.string(),
    bio: p.string().nullable(),
    role: p.string().$type<Role>(),
    passwordHash: p.string().hidden(),
    passwordChangedAt: p.datetime(),
    emailVerifiedAt: p.datetime().nullable(),
    wasVerified: p.boolean().default(false), // before an administrator withdrew that, or changed the address
    termsAcceptedAt: p.datetime(),
    mfaSecret: p.string().nullable().hidden(), // encrypted; null: no second factor
    mfaConfirmedAt: p.datetime().nullable(), // a first code has been accepted
    mfaLastStep: p.integer().nullable(), // TOTP steps up to this one are used
    lastLoginAt: p.datetime().nullable(),
    deletionAt: p.datetime().nullable(), // when the account will be erased
    createdAt: p.datetime(),
    updatedAt: p.datetime(),
  },
});

/** Roles, by their JSON names. */
export type Role = "user" | "admin";

/** An account. */
export class User extends table.class {
  declare [OptionalProps]?: "emailVerified" | "mfaEnabled";
  get emailVerified(): boolean {
    return this.emailVerifiedAt != null;
  }
  get mfaEnabled(): boolean {
    return this.mfaSecret != null;
  }
  /** Whether the date of a requested deletion has come. The account counts as gone, erased yet or not. */
  isDeletionDue(now: Date): boolean {
    return this.deletionAt != null && this.deletionAt <= now;
  }
}
table.setClass(User);

/**
 * Locks a user's row until the transaction ends. A transaction that changes several rows of a user begins with it:
 * then no two transactions deadlock, and a sign-in either sees a new password or is seen by its revocation.
 * @returns false if there is no such user.
 */
export async function lockUser({ em }: Db, id: string): Promise<boolean> {
  const rows = await em.execute<unknown[]>("select id from users where id = ? for no key update", [id]);
  return rows.length > 0;
}

/** Locks the rows of all administrators and of one more user, ordered by id so that two callers never deadlock. */
export async function lockAdminsAnd(
  { em }: Db,
  userId: string,
): Promise<{ id: string; isAdmin: boolean; isLeaving: boolean }[]> {
  return em.execute(
    `select id, role = 'admin' as "isAdmin", deletion_at is not null as "isLeaving" from users
     where role = 'admin' or id = ? order by id for no key update`,
    [userId],
  );
}

/** Inserts a user. @returns false if the address is taken; an error would make PostgreSQL log the password hash. */
export async function insertUser({ em }: Db, user: Omit<NewUser, "role">): Promise<boolean> {
  const query = em
    .createQueryBuilder(User)
    .insert({ ...user, role: "user" })
    .onConflict("canonicalEmail")
    .ignore();
  return (await query.execute("run")).affectedRows > 0;
}

type NewUser = Pick<
  User,
  | "id"
  | "email"
  | "canonicalEmail"
  | "name"
  | "role"
  | "passwordHash"
  | "passwordChangedAt"
  | "termsAcceptedAt"
  | "createdAt"
  | "updatedAt"
>;

/**
 * Marks a TOTP step as used and the factor as confirmed, unless the secret has changed or this or a later step was
 * used before: of several callers with the same code one succeeds.
 * @returns whether the step was unused.
 */
export async function consumeTotpStep(
  { em }: Db,
  id: string,
  mfaSecret: string,
  step: number,
  now: Date,
): Promise<boolean> {
  const { affectedRows } = await em.execute<{ affectedRows: number }>(
    `update users set mfa_last_step = ?, mfa_confirmed_at = coalesce(mfa_confirmed_at, ?)
     where id = ? and mfa_secret = ? and (mfa_last_step is null or mfa_last_step < ?)`,
    [step, now, id, mfaSecret, step],
    "run",
  );
  return affectedRows > 0;
}

/** Replaces all backup codes of a user. Lock the user first. */
export async function replaceBackupCodes({ em }: Db, userId: string, digests: string[]): Promise<void> {
  await em.execute("delete from backup_codes where user_id = ?", [userId]);
  await em.execute("insert into backup_codes (user_id, digest) select ?, jsonb_array_elements_text(?::jsonb)", [
    userId,
    JSON.stringify(digests),
  ]);
}

/** Deletes one backup code. Of several callers one gets it. @returns how many are left; undefined if there is no such code. */
export async function takeBackupCode(
  { em }: Db,
  userId: string,
  digests: readonly string[],
): Promise<number | undefined> {
  const taken = await em.execute<unknown[]>(
    "delete from backup_codes where user_id = ? and digest in (?) returning user_id",
    [userId, digests],
  );
  if (taken.length === 0) return undefined;
  const [row] = await em.execute<{ left: number }[]>(
    "select count(*)::int as left from backup_codes where user_id = ?",
    [userId],
  );
  return row?.left ?? 0;
}
