import type { JsonObject } from "@bufbuild/protobuf";
import { defineEntity, type OptionalProps, p, raw } from "@mikro-orm/core";
import type { AuditEventRow } from "./audit-events.ts";
import {
  type ClockedDb,
  type Db,
  firstRow,
  type HotDb,
  oneRow,
  prepared,
  returnsRow,
  toColumns,
} from "./statement.ts";

const table = defineEntity({
  name: "User",
  tableName: "users",
  properties: {
    id: p.uuid().primary(),
    email: p.string(), // as entered; mail is sent here
    canonicalEmail: p.string().unique(),
    name: p.string(),
    isService: p.boolean().default(false), // a service account has no password, cannot sign in and gets no e-mail
    bio: p.string().nullable(),
    locale: p.string().nullable(), // the chosen language, a BCP 47 tag; null if never set
    metadata: p.json().$type<JsonObject>().columnType("json").nullable(), // the installation's own data, at most 4 KiB; null if there is none
    role: p.string().$type<Role>(),
    demotedAt: p.datetime().nullable(), // when the user was last demoted from administrator; null if never
    passwordHash: p.string().hidden(),
    hasPassword: p.boolean().default(true), // false: the hash is that of random bytes
    passwordChangedAt: p.datetime(),
    emailVerifiedAt: p.datetime().nullable(),
    wasVerified: p.boolean().default(false), // an address was verified before an administrator changed it or marked it unverified
    termsAcceptedAt: p.datetime(),
    mfaSecret: p.string().nullable().hidden(), // encrypted; null without a second factor
    mfaConfirmedAt: p.datetime().nullable(), // when the first code was accepted
    mfaLastStep: p.integer().nullable(), // TOTP steps up to this one have been used
    secondFactor: p.boolean().default(false), // the owner requires a second factor for every sign-in
    lastLoginAt: p.datetime().nullable(),
    suspendedAt: p.datetime().nullable(), // while suspended, nobody can sign in and API keys are refused
    deletionAt: p.datetime().nullable(), // when the account will be erased
    createdAt: p.datetime(),
    updatedAt: p.datetime(),
  },
});

/** Roles, by JSON name. */
export type Role = "user" | "admin";

/** The domain of the addresses of service accounts. No mail goes there (RFC 2606 section 2). */
export const SERVICE_DOMAIN = "service.invalid";

/** How long the protection of an administrator continues after a demotion, in ms. */
export const ADMIN_PROTECTION_MS = 7 * 86_400_000;

export class User extends table.class {
  declare [OptionalProps]?: "emailVerified" | "mfaEnabled" | "mfaConfirmed";
  get emailVerified(): boolean {
    return this.emailVerifiedAt != null;
  }
  get mfaEnabled(): boolean {
    return this.mfaSecret != null;
  }
  /** Whether a code of the second factor has been accepted. */
  get mfaConfirmed(): boolean {
    return this.mfaConfirmedAt != null;
  }
  /**
   * Whether the user is protected as an administrator, because they are one or were one within the
   * last days. Otherwise a stolen session could demote an administrator and then take over the
   * account.
   */
  isProtectedAsAdmin(now: Date): boolean {
    const protectedSince = now.getTime() - ADMIN_PROTECTION_MS;
    return this.role === "admin" || (this.demotedAt?.getTime() ?? 0) > protectedSince;
  }
  /**
   * Whether no address of the account was ever verified, so that somebody else may have created it.
   * Service accounts count as verified, since nobody signs in to them.
   */
  isNeverVerified(): boolean {
    return !this.emailVerified && !this.wasVerified && !this.isService;
  }
  /**
   * Whether the account is due for deletion. It counts as deleted even if it has not been erased
   * yet.
   */
  isDeletionDue(now: Date): boolean {
    return this.deletionAt != null && this.deletionAt <= now;
  }
}
table.setClass(User);

/** The part of an account that login needs. */
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
  | "secondFactor"
  | "suspendedAt"
>;

/** Finds the account for a canonical address. An account that is due for deletion is not found. */
export const findLoginUser = prepared<{ email: string; now: Date }, LoginUser>(
  "find_login_user",
  `select id, email, name, role, password_hash as "passwordHash", password_changed_at as "passwordChangedAt",
     email_verified_at is not null as "emailVerified", mfa_secret is not null as "mfaEnabled", mfa_secret as "mfaSecret",
     second_factor as "secondFactor", suspended_at as "suspendedAt"
   from users where canonical_email = :email and not is_service and (deletion_at is null or deletion_at > :now)`,
);

/** The public part of an account, shown to its owner and to administrators. */
export type Profile = Pick<
  User,
  | "id"
  | "email"
  | "name"
  | "bio"
  | "role"
  | "emailVerified"
  | "mfaEnabled"
  | "secondFactor"
  | "metadata"
  | "createdAt"
  | "updatedAt"
>;

/** The columns of a profile, from `users t`. */
export const PROFILE_COLUMNS = `t.id, t.email, t.name, t.bio, t.role, t.email_verified_at is not null as "emailVerified",
  t.mfa_secret is not null as "mfaEnabled", t.second_factor as "secondFactor", t.metadata, t.created_at as "createdAt", t.updated_at as "updatedAt"`;

/**
 * Locks a user row until the transaction ends. Transactions that change several rows of a user
 * start with this lock. Hence they never deadlock, and a sign-in either sees a new password or its
 * session is seen by the revocation that follows.
 * @returns false if the user does not exist
 */
export const lockUser = (db: Db, id: string): Promise<boolean> =>
  returnsRow(db, "select id from users where id = :id for no key update", { id });

/**
 * Locks the rows of all administrators and of one other user, in id order so that two callers
 * never deadlock.
 */
export const lockAdminsAnd = ({ em }: Db, userId: string) =>
  em.execute<{ id: string; isAdmin: boolean; isLeaving: boolean }[]>(
    `select id, role = 'admin' as "isAdmin", deletion_at is not null as "isLeaving" from users
     where role = 'admin' or id = :userId order by id for no key update`,
    { userId },
  );

/** All administrators, as e-mail recipients. */
export const findAdmins = ({ em }: Db): Promise<Pick<User, "id" | "email" | "name">[]> =>
  em.find(User, { role: "admin" }, { fields: ["id", "email", "name"], orderBy: { id: "asc" } });

/**
 * A new user, with the verification token, the verification e-mail and the audit event.
 */
type Registration = Pick<
  User,
  | "id"
  | "email"
  | "canonicalEmail"
  | "name"
  | "locale"
  | "hasPassword"
  | "passwordHash"
  | "createdAt"
> & {
  tokenId: string;
  tokenExpiresAt: Date;
  mailId: string;
  variables: Record<string, string>;
  event: AuditEventRow;
};

/**
 * One statement, hence one round trip and one commit: writes user, token, e-mail and audit event,
 * or nothing.
 */
const register = prepared<Omit<Registration, "event"> & { event: object }>(
  "register",
  `with registered as (
    insert into users (id, email, canonical_email, name, locale, role, has_password, password_hash,
      password_changed_at, terms_accepted_at, created_at, updated_at)
    values (:id, :email, :canonicalEmail, :name, :locale, 'user', :hasPassword, :passwordHash, :createdAt, :createdAt, :createdAt, :createdAt)
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
 * @returns false if the address is taken; raising an error would make PostgreSQL log the password
 * hash
 */
export const insertRegistration = async (
  db: HotDb,
  { event, ...values }: Registration,
): Promise<boolean> => (await register(db, { ...values, event: toColumns(event) })).length > 0;

/**
 * Marks a TOTP step as used and the factor as confirmed, unless the secret has changed or this or a
 * later step has already been used: of several callers with the same code, only one succeeds.
 * @returns whether the step was unused
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
  { em, clock }: ClockedDb,
  userId: string,
  digests: string[],
): Promise<void> {
  await em.execute("delete from backup_codes where user_id = :userId", { userId });
  const sql =
    "insert into backup_codes (user_id, digest, created_at) select :userId, unnest(array[:digests]::text[]), :now";
  await em.execute(sql, { userId, digests, now: clock.now() });
}

/** Deletes the backup codes of a user that were created at or after a time. Lock the user first. */
export async function deleteBackupCodesSince(
  { em }: Db,
  userId: string,
  since: Date,
): Promise<void> {
  await em.execute("delete from backup_codes where user_id = :userId and created_at >= :since", {
    userId,
    since,
  });
}

/**
 * Deletes a backup code. Only one of several concurrent callers succeeds.
 * @returns the number of codes that are left; undefined if the code does not exist
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

/** Counts the backup codes that a user has left. */
export const countBackupCodes = async (db: Db, userId: string): Promise<number> =>
  (
    await oneRow<{ left: number }>(
      db,
      `select count(*)::int as "left" from backup_codes where user_id = :userId`,
      { userId },
    )
  ).left;

/** A user whom an administrator invites. */
type Invited = Pick<
  User,
  "id" | "email" | "canonicalEmail" | "name" | "role" | "passwordHash" | "createdAt"
>;

/**
 * Inserts a user without a password.
 * @returns false if the address is taken
 */
export const insertInvited = (db: Db, user: Invited): Promise<boolean> =>
  returnsRow(
    db,
    `insert into users (id, email, canonical_email, name, role, password_hash, has_password,
       password_changed_at, terms_accepted_at, created_at, updated_at)
     values (:id, :email, :canonicalEmail, :name, :role, :passwordHash, false, :createdAt, :createdAt, :createdAt, :createdAt)
     on conflict (canonical_email) do nothing returning id`,
    user,
  );

/** A new user who signs in with a provider. */
type External = Pick<
  User,
  "id" | "email" | "canonicalEmail" | "name" | "passwordHash" | "emailVerifiedAt" | "createdAt"
>;

/**
 * Inserts a user without a password, who has accepted the terms.
 * @returns false if the address is taken
 */
export const insertExternal = (db: Db, user: External): Promise<boolean> =>
  returnsRow(
    db,
    `insert into users (id, email, canonical_email, name, role, password_hash, has_password,
       password_changed_at, email_verified_at, terms_accepted_at, created_at, updated_at)
     values (:id, :email, :canonicalEmail, :name, 'user', :passwordHash, false,
       :createdAt, :emailVerifiedAt, :createdAt, :createdAt, :createdAt)
     on conflict (canonical_email) do nothing returning id`,
    user,
  );
