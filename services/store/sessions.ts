import { defineEntity, type InferEntity, p } from "@mikro-orm/core";
import { type ClockedDb, type Db, type HotDb, oneRow, prepared, returnsRow } from "./statement.ts";
import { lockUser, PROFILE_COLUMNS, type Profile, User } from "./users.ts";

/** A signed-in device. Tokens are derived from this row and never stored. */
export const Session = defineEntity({
  name: "Session",
  tableName: "sessions",
  properties: {
    id: p.uuid().primary(),
    user: () => p.manyToOne(User).ref(),
    generation: p.integer(), // incremented by each refresh; tokens carry it
    rotatedAt: p.datetime(),
    successorUsed: p.boolean().name("acknowledged"), // the current token pair has been used, which ends the grace period
    methods: p.array().$type<SignInMethod[]>(), // the proofs that opened it; empty if unknown
    confirmedAt: p.datetime().nullable(), // time of the last confirmation
    deviceId: p.uuid().nullable(), // the known device that it belongs to
    device: p.string(),
    ip: p.string(),
    location: p.string().nullable(),
    actorId: p.uuid().nullable(), // the administrator who impersonates the user
    actorSessionId: p.uuid().nullable(), // the administrator's session; this one ends with it
    createdAt: p.datetime(),
    lastActiveAt: p.datetime(),
    expiresAt: p.datetime(), // extended by each refresh, at most to `endsAt`
    endsAt: p.datetime(), // never extended
    revokedAt: p.datetime().nullable(),
  },
});
/** What proved a sign-in: the first factor, or a second one. */
export type SignInMethod =
  | "password"
  | "totp"
  | "backup-code"
  | "passkey"
  | "external"
  | "email-code";

export interface Session extends InferEntity<typeof Session> {}

/**
 * Whether session `s` is open and, under impersonation, the administrator's session too, which
 * expires no sooner.
 */
export const IS_OPEN = `s.revoked_at is null and s.expires_at > :now
       and (s.actor_session_id is null or exists (
         select from sessions a where a.id = s.actor_session_id and a.revoked_at is null))`;

/** The caller's account at the beginning of the call. */
export type CallerUser = Profile &
  Pick<User, "hasPassword" | "passwordChangedAt" | "mfaConfirmed" | "locale">;

/** An open session and its user, read for every authenticated request. */
export type FoundSession = {
  user: CallerUser;
  session: Pick<
    Session,
    "id" | "generation" | "successorUsed" | "createdAt" | "confirmedAt" | "lastActiveAt"
  >;
  /**
   * Whether the session was opened with the user's current, confirmed second factor, or with a
   * passkey, which counts as two factors.
   */
  usedSecondFactor: boolean;
  /** The administrator who is impersonating the user. */
  actorId: string | undefined;
};

type FoundRow = CallerUser &
  Pick<Session, "generation" | "successorUsed" | "confirmedAt" | "lastActiveAt" | "actorId"> &
  Pick<FoundSession, "usedSecondFactor"> & { sessionId: string; sessionCreatedAt: Date };

const findOpen = prepared<{ ids: string[]; now: Date }, FoundRow>(
  "find_open_sessions",
  `select s.id as "sessionId", s.generation, s.acknowledged as "successorUsed", s.created_at as "sessionCreatedAt",
       s.confirmed_at as "confirmedAt", s.last_active_at as "lastActiveAt", s.actor_id as "actorId",
       coalesce(t.mfa_confirmed_at <= s.created_at, false) or 'passkey' = any(s.methods) as "usedSecondFactor",
       t.has_password as "hasPassword", t.password_changed_at as "passwordChangedAt", t.locale, t.mfa_confirmed_at is not null as "mfaConfirmed", ${PROFILE_COLUMNS}
     from sessions s join users t on t.id = s.user_id
     where s.id = any((select :ids::uuid[])::uuid[]) and t.suspended_at is null and ${IS_OPEN}`, // the sub-select hides the number of ids, for which PostgreSQL would replan
);

/**
 * Reads the open sessions among the given ones, with their users, in one prepared statement.
 * @returns the open sessions by id
 */
export async function findOpenSessions(
  db: HotDb,
  ids: string[],
  now: Date,
): Promise<Map<string, FoundSession>> {
  const rows = await findOpen(db, { ids, now });
  const found = rows.map(
    ({ sessionId: id, sessionCreatedAt: createdAt, actorId, usedSecondFactor, ...row }) => {
      const { generation, successorUsed, confirmedAt, lastActiveAt, ...user } = row;
      const session = { id, generation, successorUsed, createdAt, confirmedAt, lastActiveAt };
      return [id, { user, session, usedSecondFactor, actorId: actorId ?? undefined }] as const;
    },
  );
  return new Map(found);
}

export type ListedSession = Pick<
  Session,
  "id" | "device" | "ip" | "location" | "createdAt" | "lastActiveAt"
> & {
  isImpersonation: boolean;
  /** How it began; null if unknown. */
  method: SignInMethod | null;
};

/** Lists a user's open sessions, newest first. */
export const listOpenSessions = ({ em }: Db, userId: string, now: Date): Promise<ListedSession[]> =>
  em.execute(
    `select s.id, s.device, s.ip, s.location, s.actor_id is not null as "isImpersonation", s.methods[1] as method, s.created_at as "createdAt",
       s.last_active_at as "lastActiveAt"
     from sessions s where s.user_id = :userId and ${IS_OPEN} order by s.created_at desc, s.id desc`,
    { userId, now },
  );

/**
 * Whether a user's session has not been revoked. Prevents its deletion until the transaction ends.
 */
export const lockOpenSession = (db: Db, id: string, userId: string): Promise<boolean> =>
  returnsRow(
    db,
    "select id from sessions where id = :id and user_id = :userId and revoked_at is null for key share",
    {
      id,
      userId,
    },
  );

/** The known device that a session belongs to; null if unknown. */
export const findDeviceOf = async ({ em }: Db, id: string): Promise<string | null> =>
  (await em.findOne(Session, { id }, { fields: ["deviceId"] }))?.deviceId ?? null;

/** Records that the user has confirmed a session. */
export async function confirmSession({ em, clock }: ClockedDb, id: string): Promise<void> {
  await em.nativeUpdate(Session, { id }, { confirmedAt: clock.now() });
}

/**
 * Revokes a user's session if it is open. Impersonations opened from it end with it.
 * @returns whether it was open
 */
export const revokeSession = (db: ClockedDb, id: string, userId: string): Promise<boolean> =>
  returnsRow(
    db,
    `update sessions as s set revoked_at = :now where s.id = :id and s.user_id = :userId and ${IS_OPEN} returning s.id`,
    { id, userId, now: db.clock.now() },
  );

/** Revokes the sessions in which administrators impersonate this user. */
export async function endImpersonations({ em, clock }: ClockedDb, userId: string): Promise<void> {
  const isOpen = { user: userId, actorId: { $ne: null }, revokedAt: null };
  await em.nativeUpdate(Session, isOpen, { revokedAt: clock.now() });
}

/**
 * Revokes a user's sessions, except one. Joins the caller's transaction. The user is locked in an
 * earlier statement, so that this one sees the session of a sign-in that the lock has waited for.
 * @returns how many were open. Sessions that had expired, or had ended with the administrator's,
 * are not counted.
 */
export async function revokeSessions(
  { em, clock }: ClockedDb,
  userId: string,
  exceptId: string | null = null,
): Promise<number> {
  await lockUser({ em }, userId);
  const rows = await em.execute<{ was_open: boolean }[]>(
    `update sessions as s set revoked_at = :now
     where s.user_id = :userId and s.revoked_at is null and s.id is distinct from :exceptId::uuid
     returning s.expires_at > :now and not exists (
       select from sessions a where a.id = s.actor_session_id and a.revoked_at is not null) as was_open`,
    { userId, exceptId, now: clock.now() },
  );
  return rows.filter((row) => row.was_open).length;
}

/**
 * Records when sessions were last active. Changes no indexed column, and skips rows that others
 * have locked.
 */
export async function updateLastActive(
  { em }: Db,
  sessions: { id: string; at: Date }[],
): Promise<void> {
  await em.execute(
    `with due as (
       select s.id, v.at from jsonb_to_recordset(:sessions::jsonb) as v (id uuid, at timestamptz)
       join sessions s on s.id = v.id where s.last_active_at < v.at
       for no key update of s skip locked)
     update sessions as s set last_active_at = due.at from due where s.id = due.id`,
    { sessions: JSON.stringify(sessions) },
  );
}

/**
 * Revokes a limited number of the sessions that began before or at `until`, so that no statement
 * runs long.
 * @returns the number of revoked sessions; 0 once all are revoked
 */
export async function revokeSomeSessions(
  { em }: Db,
  now: Date,
  { until, limit }: { until: Date; limit: number },
): Promise<number> {
  const { affectedRows } = await em.execute<{ affectedRows: number }>(
    `update sessions set revoked_at = :now where id in (
       select id from sessions where revoked_at is null and created_at <= :until order by id limit :limit for update)`,
    { now, until, limit },
    "run",
  );
  return affectedRows;
}

/**
 * Ends all sessions and deletes all one-time tokens and signing keys, so that no earlier token is
 * valid.
 * @returns the number of open sessions that ended
 */
export async function endAllTokens(db: Db, now: Date): Promise<number> {
  const { ended } = await oneRow<{ ended: number }>(
    db,
    `with ended as (update sessions set revoked_at = :now where revoked_at is null returning expires_at),
       tokens as (delete from one_time_tokens),
       keys as (delete from signing_keys)
     select count(*) filter (where expires_at > :now)::int as ended from ended`,
    { now },
  );
  return ended;
}
