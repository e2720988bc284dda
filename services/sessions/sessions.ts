import Bowser from "bowser";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockUser } from "../accounts/lock-user.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { newId } from "../store/ids.ts";
import type { Caller } from "./caller.ts";
import { LAST_SEEN_RESOLUTION_MS } from "./last-seen.ts";
import type { SessionClaims } from "./tokens.ts";

/** Sessions of one user; the oldest goes, one that has ended first, then an administrator's. */
const MAX_SESSIONS = 100;

/** A session that is about to be opened: its row, and what its tokens are made of. */
export function newSession({ config, client, clock, locate }: Pick<Call, "config" | "client" | "clock" | "locate">) {
  const now = clock.now();
  const after = (ms: number) => new Date(now.getTime() + ms);
  const token = {
    id: newId(now),
    generation: 0,
    rotatedAt: now,
    expiresAt: after(config.refreshTokenMs),
    actorId: null,
  };
  const row = {
    id: token.id,
    rotated_at: now,
    device: deviceOf(client.agent),
    ip: client.address,
    location: locate(client.address),
    created_at: now,
    last_active_at: now,
    expires_at: token.expiresAt,
    ends_at: after(config.sessionMaxAgeMs),
  };
  return { token, row };
}

/** Those for which there is no room when one more is opened. */
const SURPLUS = `order by s.revoked_at is not null, s.actor_id is not null, s.created_at desc, s.id desc offset ${MAX_SESSIONS - 1}`;

/** Parts of the statement that signs a user in (`signed`): opens a session by its row in JSON, and drops the oldest. */
export const OPEN_SESSION = `pruned as (
    delete from sessions where id in (
      select s.id from sessions s join signed on signed.id = s.user_id ${SURPLUS})),
  opened as (
    insert into sessions
      (id, user_id, rotated_at, device, ip, location, created_at, last_active_at, expires_at, ends_at)
    select r.id, signed.id, r.rotated_at, r.device, r.ip, r.location, r.created_at, r.last_active_at, r.expires_at, r.ends_at
    from signed, jsonb_populate_record(null::sessions, ?::jsonb) as r)`;

/**
 * Finds the caller that an access token claims to be from. The session's row is read every time, so a revoked one is refused at once by
 * every process; the first use of a refreshed pair closes the grace of the one before it.
 * @throws ServiceError UNAUTHENTICATED
 */
export async function identify(
  call: Pick<Call, "em" | "findSession" | "clock" | "lastSeen">,
  claims: SessionClaims | undefined,
): Promise<Caller> {
  const row = claims && (await call.findSession(claims.sessionId));
  if (!claims || !row || row.id !== claims.userId) {
    throw new ServiceError(Reason.UNAUTHENTICATED, "The access token is missing, invalid or expired. Please sign in.");
  }
  if (!row.successor_used && row.generation === claims.generation) {
    await call.em.execute("update sessions set acknowledged = true where id = ? and generation = ?", [
      claims.sessionId,
      claims.generation,
    ]);
  }
  const now = call.clock.now();
  if (now.getTime() - new Date(row.last_active_at).getTime() >= LAST_SEEN_RESOLUTION_MS) {
    call.lastSeen.touch(claims.sessionId, now);
  }
  return {
    user: {
      id: row.id,
      email: row.email,
      name: row.name,
      bio: row.bio,
      role: row.role,
      emailVerified: row.email_verified,
      mfaEnabled: row.mfa_enabled,
      passwordChangedAt: new Date(row.password_changed_at),
      createdAt: new Date(row.created_at),
      updatedAt: new Date(row.updated_at),
    },
    session: { id: claims.sessionId, createdAt: new Date(row.session_created_at) },
    actorId: row.actor_id ?? undefined,
  };
}

/** Makes room for an impersonation, which never drives out a session of the user's own. */
export async function dropOldestImpersonations({ em }: Pick<Call, "em">, userId: string): Promise<void> {
  await em.execute(
    `delete from sessions where actor_id is not null and id in (select s.id from sessions s where s.user_id = ? ${SURPLUS})`,
    [userId],
  );
}

/** Ends what administrators do in a user's name. */
export async function endImpersonations({ em, clock }: Pick<Call, "em" | "clock">, userId: string): Promise<void> {
  await em.execute(
    "update sessions set revoked_at = ? where user_id = ? and actor_id is not null and revoked_at is null",
    [clock.now(), userId],
  );
}

/** Ends a session; false when it had ended already. Sessions it opened by impersonation end with it. */
export async function revokeSession(call: Pick<Call, "em" | "clock">, sessionId: string): Promise<boolean> {
  const rows = await call.em.execute<unknown[]>(
    "update sessions set revoked_at = ? where id = ? and revoked_at is null returning id",
    [call.clock.now(), sessionId],
  );
  return rows.length > 0;
}

/**
 * Ends every session of a user but the excepted one; joins the transaction it is called in.
 * @returns how many were open: those that had expired, or ended with their administrator's, are told to nobody.
 */
export async function revokeSessions(
  call: Pick<Call, "em" | "clock">,
  userId: string,
  exceptId: string | null = null,
): Promise<number> {
  await lockUser(call, userId); // a statement of its own: the next one then sees the session of a sign-in it waited for
  const now = call.clock.now();
  const rows = await call.em.execute<{ was_open: boolean }[]>(
    `update sessions as s set revoked_at = ?
     where s.user_id = ? and s.revoked_at is null and s.id is distinct from ?::uuid
     returning s.expires_at > ? and not exists (
       select from sessions a where a.id = s.actor_session_id and a.revoked_at is not null) as was_open`,
    [now, userId, exceptId, now],
  );
  return rows.filter((row) => row.was_open).length;
}

/** Such as "Chrome on Windows". */
export function deviceOf(agent: string): string {
  const [word] = /[^/\s]+/.exec(agent) ?? [];
  if (!word) return "Unknown device";
  const { browser, os } = Bowser.parse(agent);
  return [browser.name || word, os.name].filter(Boolean).join(" on ").slice(0, 200);
}
