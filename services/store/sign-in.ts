import type { SessionClaims } from "../platform/gate/access-token.ts";
import type { Reservation } from "./attempts.ts";
import type { AuditEventRow } from "./audit-events.ts";
import { mayGetNotice } from "./emails.ts";
import type { Session } from "./sessions.ts";
import {
  type ClockedDb,
  type Db,
  firstRow,
  type HotDb,
  prepared,
  returnsRow,
  toColumns,
} from "./statement.ts";
import type { LoginUser, User } from "./users.ts";

/** Maximum number of sessions per user. */
const MAX_SESSIONS = 100;
/** Maximum number of known devices per user. */
const MAX_DEVICES = 50;
/** The row of a new session. */
export type NewSession = Pick<
  Session,
  | "id"
  | "methods"
  | "deviceId"
  | "device"
  | "ip"
  | "location"
  | "createdAt"
  | "expiresAt"
  | "endsAt"
>;

/**
 * The e-mail to the owner if the device is new to the account, and the token of its link. It is
 * created at the time of the sign-in.
 */
export type NewDeviceNotice = {
  mailId: string;
  tokenId: string;
  tokenExpiresAt: Date;
  variables: Record<string, string>;
};

/**
 * The user at the moment when revocations begin to find the session. `restored`: a pending deletion
 * was cancelled.
 */
export type SignedInUser = Pick<User, "id" | "email" | "name" | "role" | "metadata"> & {
  restored: boolean;
};

/** Whether user `u` is unchanged since the password was verified, and not suspended. */
const IS_UNCHANGED = `u.id = :userId and u.password_changed_at = :passwordChangedAt
  and u.mfa_secret is not distinct from :mfaSecret and u.second_factor = :secondFactor and u.suspended_at is null
  and (u.deletion_at is null or u.deletion_at > :now)`;

const unchangedValues = (
  { id, passwordChangedAt, mfaSecret = null, secondFactor }: LoginUser,
  now: Date,
) => {
  return { userId: id, passwordChangedAt, mfaSecret, secondFactor, now };
};

/**
 * Sessions of a user that exceed the limit once one more is opened: ended ones first, then
 * impersonations, then the oldest.
 */
const SURPLUS = `order by least(s.revoked_at, s.expires_at) <= :now, s.actor_id is not null, s.created_at desc, s.id desc offset ${MAX_SESSIONS - 1}`;

/**
 * A pending deletion as of the beginning of the statement. Read without a lock: two statements that
 * lock a row and then update it wait for each other if a third party holds a share lock on the row.
 */
const DELETION_AT = "(select o.deletion_at from users as o where o.id = u.id)";

/**
 * One statement, hence one round trip and one commit: writes user, session, device, audit events
 * and attempt counter, or nothing. The user row is locked first and the counter last, as
 * everywhere.
 *
 * A device is strange if it is new and the account has another known device, or a session that
 * began on one. Sign-ins of earlier releases recorded no devices, so the first one after an upgrade
 * is not reported. A `not-me` token that is still valid is mailed again and keeps its creation
 * time, that of the first strange sign-in.
 */
const SIGN_IN = `with signed as (
    update users as u set last_login_at = :now, deletion_at = null,
      updated_at = case when u.deletion_at is null then u.updated_at else :now end
    where ${IS_UNCHANGED} and u.deletion_at is not distinct from ${DELETION_AT}
    returning u.id, u.email, u.name, u.role, u.metadata, u.email_verified_at, ${DELETION_AT} is not null as restored),
  pruned as (
    delete from sessions where id in (
      select s.id from sessions s join signed on signed.id = s.user_id ${SURPLUS})),
  opened as (
    insert into sessions
      (id, user_id, rotated_at, methods, device_id, device, ip, location, created_at, last_active_at, expires_at, ends_at)
    select :id::uuid, id, :now::timestamptz, string_to_array(:methods, ','), :deviceId::uuid, :device, :ip, :location, :now, :now, :expiresAt::timestamptz, :endsAt::timestamptz
    from signed),
  added as (
    insert into devices (user_id, id, label, ip, location, created_at, last_used_at)
    select id, :deviceId::uuid, :device, :ip, :location, :now, :now from signed
    on conflict do nothing returning user_id),
  used as (
    update devices as d set label = :device, ip = :ip, location = :location, last_used_at = :now
    from signed where d.user_id = signed.id and d.id = :deviceId::uuid),
  dropped as (
    delete from devices where (user_id, id) in (
      select d.user_id, d.id from devices d join added on added.user_id = d.user_id
      order by d.last_used_at desc, d.id desc offset ${MAX_DEVICES - 1})),
  strange as (
    select signed.id, signed.email from signed join added on added.user_id = signed.id
    where (exists (select from devices d where d.user_id = signed.id)
        or exists (select from sessions s where s.user_id = signed.id and s.device_id is not null))
      and (signed.email_verified_at is not null or ${mayGetNotice("signed.id")})),
  issued as (
    insert into one_time_tokens as t (id, user_id, kind, email, created_at, expires_at)
    select :tokenId::uuid, id, 'not-me', email, :now, :tokenExpiresAt::timestamptz from strange
    on conflict (user_id, kind) do update set expires_at = excluded.expires_at,
      id = case when t.expires_at > :now and t.email = excluded.email then t.id else excluded.id end,
      created_at = case when t.expires_at > :now and t.email = excluded.email then t.created_at else excluded.created_at end,
      email = excluded.email
    returning id),
  queued as (
    insert into emails (id, user_id, "to", template, facts, token_id, status, created_at, next_attempt_at)
    select :mailId::uuid, strange.id, strange.email, 'new-device', :variables::jsonb, issued.id, 'queued', :now, :now
    from strange, issued returning id),
  recorded as (
    insert into audit_events
    select r.* from signed, jsonb_populate_recordset(null::audit_events, :events::jsonb) as r
    where signed.restored or r.event <> 'user.restored' returning id),
  unsealed as (insert into audit_unsealed (event_id) select id from recorded),
  settled as (
    update attempts as a set reservations = array_remove(a.reservations, :attemptId::uuid), failed = 0, failed_at = null, consecutive = 0
    from signed
    where a.kind = :attemptKind and a.subject = :subject and a.locked_until is null)
  select id, email, name, role, metadata, restored, exists (select from queued) as "isNotified" from signed`;
const preparedSignIn = prepared<object, SignIn>("sign_in", SIGN_IN);

/** A sign-in, and whether an e-mail about its device was queued. */
type SignIn = SignedInUser & { isNotified: boolean };

/**
 * Opens a session, unless the password or second factor has changed since it was verified. Cancels
 * a pending deletion, deletes the user's surplus sessions, records the device as known and records
 * the audit events (`user.restored` only if a deletion was cancelled).
 * @param notice queued if the device is new to the account
 * @param attempt the successful password attempt; if undefined, joins the transaction in which a
 * second factor was consumed
 * @returns undefined if the row has changed
 */
export async function signIn(
  db: Db & HotDb,
  user: LoginUser,
  session: NewSession,
  events: AuditEventRow[],
  notice: NewDeviceNotice,
  attempt: Reservation | undefined,
): Promise<SignIn | undefined> {
  const values = {
    ...session,
    methods: session.methods.join(","), // as text, which both ways of running the statement accept
    ...unchangedValues(user, session.createdAt),
    events: JSON.stringify(events.map(toColumns)),
    ...notice,
    variables: JSON.stringify(notice.variables),
    attemptKind: attempt?.kind ?? null,
    attemptId: attempt?.id ?? null,
    subject: attempt?.subject ?? null,
  };
  const run = async () =>
    attempt ? (await preparedSignIn(db, values))[0] : firstRow<SignIn>(db, SIGN_IN, values);
  return (await run()) ?? run(); // a concurrent sign-in may have cancelled the deletion in the meantime
}

/**
 * Locks a user whose password was verified against this row.
 * @returns false if the row has changed
 */
export const lockIfUnchanged = (db: Db, user: LoginUser, now: Date): Promise<boolean> =>
  returnsRow(
    db,
    `select u.id from users as u where ${IS_UNCHANGED} for no key update`,
    unchangedValues(user, now),
  );

/**
 * Makes room for another impersonation of a user: deletes an impersonation that would exceed the
 * limit, never one of the user's own sessions.
 */
export async function dropSurplusImpersonation(
  { em, clock }: ClockedDb,
  userId: string,
): Promise<void> {
  await em.execute(
    `delete from sessions where actor_id is not null and id in (
       select s.id from sessions s where s.user_id = :userId ${SURPLUS})`,
    { userId, now: clock.now() },
  );
}

/** A session and its user, as needed by a refresh. */
export type RefreshedSession = Pick<
  Session,
  | "id"
  | "generation"
  | "successorUsed"
  | "rotatedAt"
  | "expiresAt"
  | "methods"
  | "createdAt"
  | "device"
  | "actorId"
> & { isRevoked: boolean; user: Pick<User, "id" | "email" | "name" | "role" | "metadata"> };

const COLUMNS = `s.id, s.generation, s.acknowledged as "successorUsed", s.rotated_at as "rotatedAt",
  s.expires_at as "expiresAt", s.revoked_at is not null as "isRevoked", s.methods, s.created_at as "createdAt", s.device, s.actor_id as "actorId",
  json_build_object('id', u.id, 'email', u.email, 'name', u.name, 'role', u.role, 'metadata', u.metadata) as "user"`;

/**
 * The refresh rotation: increments the generation of an open session if it is still the one in the
 * token, so that only one of several concurrent callers rotates. Returns the updated session, or
 * nothing if it is not open or has another generation.
 */
export const rotateSession = prepared<
  SessionClaims & { now: Date; address: string; location: string | null; expiresAt: Date },
  RefreshedSession
>(
  "rotate_session",
  `update sessions as s set generation = s.generation + 1, acknowledged = false, rotated_at = :now, last_active_at = :now,
     ip = :address, location = :location, expires_at = least(s.ends_at, :expiresAt)
   from users as u
   where u.id = s.user_id and s.id = :sessionId and s.user_id = :userId and s.generation = :generation
     and s.revoked_at is null and s.expires_at > :now and u.suspended_at is null
   returning ${COLUMNS}`,
);

/**
 * Reads a session, open or not.
 * @returns undefined if the user has no such session
 */
export const findSessionForRefresh = (db: Db, { sessionId, userId }: SessionClaims) =>
  firstRow<RefreshedSession>(
    db,
    `select ${COLUMNS} from sessions as s join users as u on u.id = s.user_id
     where s.id = :sessionId and s.user_id = :userId`,
    { sessionId, userId },
  );
