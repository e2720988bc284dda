import { defineEntity, type OptionalProps, p, raw } from "@mikro-orm/core";
import type { AuditEventRow } from "./audit-events.ts";
import { type Db, firstRow, type HotDb, prepared, returnsRow, toColumns } from "./statement.ts";

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
    demotedAt: p.datetime().nullable(), // when the user was last an administrator; null: never, or until now
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

/** How long the protection of an administrator outlasts a demotion, in ms. */
export const ADMIN_PROTECTION_MS = 7 * 86_400_000;

export class User extends table.class {
  declare [OptionalProps]?: "emailVerified" | "mfaEnabled" | "mfaConfirmed";
  get emailVerified(): boolean {
    return this.emailVerifiedAt != null;
  }
  get mfaEnabled(): boolean {
    return this.mfaSecret != null;
  }
  /** Whether a first code of the second factor has been accepted. */
  get mfaConfirmed(): boolean {
    return this.mfaConfirmedAt != null;
  }
  /**
   * Whether the user is protected as an administrator: one now, or until a few days ago. Otherwise a
   * stolen session could demote an administrator first, and take over the account then.
   */
  isProtectedAsAdmin(now: Date): boolean {
    const protectedSince = now.getTime() - ADMIN_PROTECTION_MS;
    return this.role === "admin" || (this.demotedAt?.getTime() ?? 0) > protectedSince;
  }
  /**
   * Whether the date of a requested deletion has come. The account counts as gone, erased yet or
   * not.
   */
  isDeletionDue(now: Date): boolean {
    return this.deletionAt != null && this.deletionAt <= now;
  }
}
table.setClass(User);

/** The part of an account that a login checks. */
export type LoginUser = Pick<
  User,
  | "id"
  | "email"
  | "name"
  | "role"
  | "passwordHash"
  | "passwordChangedAt"
  | "emailVerified"
  | "mfaEnabled"
  | "mfaSecret"
>;

/** Finds the account of a canonical address. One whose deletion is due counts as gone. */
export const findLoginUser = prepared<{ email: string; now: Date }, LoginUser>(
  "find_login_user",
  `select id, email, name, role, password_hash as "passwordHash", password_changed_at as "passwordChangedAt",
     email_verified_at is not null as "emailVerified", mfa_secret is not null as "mfaEnabled", mfa_secret as "mfaSecret"
   from users where canonical_email = :email and (deletion_at is null or deletion_at > :now)`,
);

/** What others and the user see of an account. */
export type Profile = Pick<
  User,
  | "id"
  | "email"
  | "name"
  | "bio"
  | "role"
  | "emailVerified"
  | "mfaEnabled"
  | "createdAt"
  | "updatedAt"
>;

/** The columns of a profile in `users t`. */
export const PROFILE_COLUMNS = `t.id, t.email, t.name, t.bio, t.role, t.email_verified_at is not null as "emailVerified",
  t.mfa_secret is not null as "mfaEnabled", t.created_at as "createdAt", t.updated_at as "updatedAt"`;

/**
 * Locks a user's row until the transaction ends. A transaction that changes several rows of a user
 * begins with it: then no two transactions deadlock, and a sign-in either sees a new password or is
 * seen by its revocation.
 * @returns false if there is no such user.
 */
export const lockUser = (db: Db, id: string): Promise<boolean> =>
  returnsRow(db, "select id from users where id = :id for no key update", { id });

/**
 * Locks the rows of all administrators and of one more user, ordered by id so that two callers
 * never deadlock.
 */
export const lockAdminsAnd = ({ em }: Db, userId: string) =>
  em.execute<{ id: string; isAdmin: boolean; isLeaving: boolean }[]>(
    `select id, role = 'admin' as "isAdmin", deletion_at is not null as "isLeaving" from users
     where role = 'admin' or id = :userId order by id for no key update`,
    { userId },
  );

/** All administrators, as recipients of e-mails. */
export const findAdmins = ({ em }: Db): Promise<Pick<User, "id" | "email" | "name">[]> =>
  em.find(User, { role: "admin" }, { fields: ["id", "email", "name"], orderBy: { id: "asc" } });

/**
 * A user to be registered, the token and the e-mail that verify the address, and the audit event.
 */
type Registration = Pick<
  User,
  "id" | "email" | "canonicalEmail" | "name" | "passwordHash" | "createdAt"
> & {
  tokenId: string;
  tokenExpiresAt: Date;
  mailId: string;
  variables: Record<string, string>;
  event: AuditEventRow;
};

/**
 * One statement, so one round trip and one commit: user, token, e-mail and audit event, or nothing.
 */
const register = prepared<Omit<Registration, "event"> & { event: object }>(
  "register",
  `with registered as (
    insert into users (id, email, canonical_email, name, role, password_hash,
      password_changed_at, terms_accepted_at, created_at, updated_at)
    values (:id, :email, :canonicalEmail, :name, 'user', :passwordHash, :createdAt, :createdAt, :createdAt, :createdAt)
    on conflict (canonical_email) do nothing returning id, email, created_at as now),
  issued as (
    insert into one_time_tokens (id, user_id, kind, email, created_at, expires_at)
    select :tokenId::uuid, id, 'verify-email', email, now, :tokenExpiresAt::timestamptz from registered returning id),
  queued as (
    insert into emails (id, user_id, "to", template, facts, token_id, status, created_at, next_attempt_at)
    select :mailId::uuid, r.id, r.email, 'verify-email', :variables::jsonb, issued.id, 'queued', r.now, r.now
    from registered as r, issued),
  recorded as (
    insert into audit_events
    select r.* from registered, jsonb_populate_record(null::audit_events, :event::jsonb) as r returning id),
  unsealed as (insert into audit_unsealed (event_id) select id from recorded)
  select id from registered`,
);

/**
 * Registers a user.
 * @returns false if the address is taken; an error would make PostgreSQL log the password hash.
 */
export const insertRegistration = async (
  db: HotDb,
  { event, ...values }: Registration,
): Promise<boolean> => (await register(db, { ...values, event: toColumns(event) })).length > 0;

/**
 * Marks a TOTP step as used and the factor as confirmed, unless the secret has changed or this or a
 * later step was used before: of several callers with the same code one succeeds.
 * @returns whether the step was unused.
 */
export async function consumeTotpStep(
  { em }: Db,
  user: User,
  step: number,
  now: Date,
): Promise<boolean> {
  const { id, mfaSecret } = user;
  const isUnused = { $or: [{ mfaLastStep: null }, { mfaLastStep: { $lt: step } }] };
  const mfaConfirmedAt = raw("coalesce(mfa_confirmed_at, ?)", [now]);
  return (
    (await em.nativeUpdate(
      User,
      { id, mfaSecret, ...isUnused },
      { mfaLastStep: step, mfaConfirmedAt },
    )) > 0
  );
}

/** Replaces all backup codes of a user. Lock the user first. */
export async function replaceBackupCodes(
  { em }: Db,
  userId: string,
  digests: string[],
): Promise<void> {
  await em.execute("delete from backup_codes where user_id = :userId", { userId });
  const sql =
    "insert into backup_codes (user_id, digest) select :userId, unnest(array[:digests]::text[])";
  await em.execute(sql, { userId, digests });
}

/**
 * Deletes one backup code. Of several callers one gets it.
 * @returns how many are left; undefined if there is no such code.
 */
export async function takeBackupCode(
  db: Db,
  userId: string,
  digests: readonly string[],
): Promise<number | undefined> {
  const row = await firstRow<{ left: number }>(
    db,
    `with taken as (delete from backup_codes where user_id = :userId and digest in (:digests) returning digest)
     select (count(*) - 1)::int as left from backup_codes where user_id = :userId having exists (select from taken)`,
    { userId, digests },
  );
  return row?.left;
}
