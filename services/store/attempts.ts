import type { Config } from "../platform/config/config.ts";
import { lowestId } from "./ids.ts";
import { type ClockedDb, type Db, firstRow, type HotDb, prepared } from "./statement.ts";
import type { User } from "./users.ts";

/**
 * What guesses count towards. Passwords at login are counted by canonical e-mail address, all
 * others by user id. A confirmation is the password of a signed-in user. Backup codes have a
 * separate counter, used once codes are permanently locked. A known device has a separate counter
 * while passwords of its account are locked, with the subject `deviceSubject`.
 */
export type AttemptKey = {
  kind: "password" | "confirmation" | "second-factor" | "backup-code" | "device";
  subject: string;
};

/** Subject of the guesses on a known device. */
export const deviceSubject = (userId: string, deviceId: string): string => `${userId}:${deviceId}`;

/** The number of failures that lock an account, and the duration of the lock. */
export type LockoutConfig = Pick<
  Config,
  "lockoutThreshold" | "lockoutDurationMs" | "lockoutResetMs"
>;

/** End of a permanent lock. */
export const LOCKED_FOR_GOOD = new Date("9999-12-31T00:00:00Z");
/**
 * Number of consecutive failures, across locks, after which the lock is permanent (NIST SP
 * 800-63B-4 section 3.2.2).
 */
const MAX_CONSECUTIVE = 100;

/**
 * Time after which a reservation expires, in ms: its process has died, and the outcome of the guess
 * is unknown.
 */
const EXPIRY_MS = 30_000;

/**
 * Commits asynchronously (`synchronous_commit = off`, PostgreSQL 20.5). Safe only where losing the
 * change in a database crash never allows extra guesses. Never used for recording a failure.
 */
const ASYNC_COMMIT = "set_config('synchronous_commit', 'off', true) as async_commit";

/**
 * A counted guess. Its id contains its time, so it expires by itself; ending it twice has no
 * effect.
 */
export type Reservation = AttemptKey & { id: string };

const FAILED =
  "(case when a.locked_until is null and a.failed_at > :failuresAfter then a.failed else 0 end)";
const RESERVATIONS =
  "array(select r from unnest(a.reservations) as r where a.locked_until is null and r >= :firstValid::uuid)";
const RESERVED = `cardinality(${RESERVATIONS})`;

const reserve = prepared<
  Reservation & { threshold: number; failuresAfter: Date; firstValid: string; now: Date }
>(
  "reserve_attempt",
  `insert into attempts as a (kind, subject, reservations, reserved_at)
   select :kind::text, :subject::text, array[:id::uuid], :now::timestamptz from ${ASYNC_COMMIT}
   on conflict (kind, subject) do update set
     failed = ${FAILED}, reservations = ${RESERVATIONS} || :id::uuid, reserved_at = excluded.reserved_at,
     locked_until = null
   where a.locked_until <= :now or (a.locked_until is null and ${FAILED} + ${RESERVED} < :threshold
     and a.consecutive + ${RESERVED} < ${MAX_CONSECUTIVE})
   returning kind`,
);

/**
 * Counts a guess before it is evaluated.
 * @returns false while locked, or while enough guesses are in flight to cause a lock
 */
export async function insertReservation(
  db: HotDb,
  reservation: Reservation,
  { lockoutThreshold: threshold, lockoutResetMs }: LockoutConfig,
  now: Date,
): Promise<boolean> {
  const failuresAfter = new Date(now.getTime() - lockoutResetMs);
  const firstValid = lowestId(new Date(now.getTime() - EXPIRY_MS));
  return (
    (await reserve(db, { ...reservation, threshold, failuresAfter, firstValid, now })).length > 0
  );
}

/** Until when guesses are rejected, and when failures were last cleared. */
export type Lock = { lockedUntil?: Date | null; clearedAt?: Date | null };

const readLock = prepared<AttemptKey & { now: Date }, Lock>(
  "find_lock",
  `select case when locked_until > :now then locked_until end as "lockedUntil", cleared_at as "clearedAt"
   from attempts where kind = :kind and subject = :subject`,
);

/** Reads the lock of a subject; empty if no guesses were counted. */
export const findLock = async (db: HotDb, key: AttemptKey, now: Date): Promise<Lock> =>
  (await readLock(db, { ...key, now }))[0] ?? {};

/**
 * Ends the reservation of a correct guess and clears the failures, unless they have caused a lock
 * in the meantime.
 */
export const recordSuccess = prepared<Reservation>(
  "attempt_succeeded",
  `update attempts set reservations = array_remove(reservations, :id::uuid), failed = 0, failed_at = null, consecutive = 0
   from ${ASYNC_COMMIT}
   where kind = :kind and subject = :subject and locked_until is null`,
);

/**
 * Ends the reservation of a wrong guess. Joins the transaction. Locks the user row first, because
 * an e-mail to the user may follow, and because erasing a user locks it before the guesses.
 * @returns the end of the lock that the failure causes, if any; `LOCKED_FOR_GOOD` at 100 failures
 * in a row
 */
export async function recordFailure(
  db: Db,
  reservation: Reservation,
  { lockoutThreshold: threshold, lockoutResetMs, lockoutDurationMs }: LockoutConfig,
  now: Date,
  ownerId: string | undefined,
): Promise<Date | undefined> {
  const failuresAfter = new Date(now.getTime() - lockoutResetMs);
  const lockedUntil = new Date(now.getTime() + lockoutDurationMs);
  const row = await firstRow<{ lockedUntil: Date | null }>(
    db,
    `with owner as (select id from users where id = :ownerId for key share)
     update attempts as a set reservations = array_remove(a.reservations, :id::uuid), failed = ${FAILED} + 1, failed_at = :now,
       consecutive = a.consecutive + 1,
       locked_until = case when a.consecutive + 1 >= ${MAX_CONSECUTIVE} then :LOCKED_FOR_GOOD
         when ${FAILED} + 1 >= :threshold then :lockedUntil::timestamptz end
     where kind = :kind and subject = :subject and locked_until is null and (select count(*) from owner) >= 0
     returning locked_until as "lockedUntil"`,
    {
      ...reservation,
      ownerId: ownerId ?? null,
      failuresAfter,
      now,
      threshold,
      lockedUntil,
      LOCKED_FOR_GOOD,
    },
  );
  return row?.lockedUntil ?? undefined;
}

/** Ends the reservation of a guess that was not evaluated. */
export const releaseReservation = prepared<Reservation>(
  "release_attempt",
  `update attempts set reservations = array_remove(reservations, :id::uuid) from ${ASYNC_COMMIT}
   where kind = :kind and subject = :subject`,
);

/**
 * Clears guesses and a lock, and records when, for the rate limit.
 * @param all whether to also clear the consecutive failures and a permanent lock
 */
export async function clearLock(
  { em, clock }: ClockedDb,
  key: AttemptKey,
  all: boolean,
): Promise<void> {
  await em.execute(
    `insert into attempts as a (kind, subject, reserved_at, cleared_at) values (:kind, :subject, :now, :now)
     on conflict (kind, subject) do update set reservations = '{}', reserved_at = excluded.reserved_at, failed = 0,
       failed_at = null, locked_until = null, cleared_at = excluded.cleared_at,
       consecutive = case when :all then 0 else a.consecutive end
     where :all or a.locked_until is distinct from :LOCKED_FOR_GOOD`,
    { ...key, now: clock.now(), all, LOCKED_FOR_GOOD },
  );
}

/**
 * Clears failed passwords and codes of an account. The rate limit of its next login ignores earlier
 * logins.
 * @param by A mailed reset does not unlock permanently locked codes: only a backup code or an
 * operator does.
 */
export async function clearLocks(
  db: ClockedDb,
  { id, canonicalEmail }: Pick<User, "id" | "canonicalEmail">,
  by: "operator" | "reset",
): Promise<void> {
  await clearLock(db, { kind: "password", subject: canonicalEmail }, true);
  await clearLock(db, { kind: "confirmation", subject: id }, true);
  await db.em.execute(
    `delete from attempts where kind = 'device'
       and subject in (select user_id || ':' || id from devices where user_id = :id)`,
    { id },
  );
  await clearLock(db, { kind: "second-factor", subject: id }, by === "operator");
  await clearLock(db, { kind: "backup-code", subject: id }, by === "operator");
}

/** Deletes the attempts of a subject that no longer belongs to an account. */
export async function deleteAttempts(
  { em }: Db,
  subject: string,
  ...kinds: AttemptKey["kind"][]
): Promise<void> {
  await em.execute("delete from attempts where kind in (:kinds) and subject = :subject", {
    kinds,
    subject,
  });
}
