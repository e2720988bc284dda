import { setTimeout as wait } from "node:timers/promises";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { queueDailyEmail } from "../mail/queue.ts";
import { endOf } from "../mail/templates.ts";
import { ServiceError, tooBusy } from "../platform/rpc/errors.ts";
import {
  type AttemptKey,
  findLock,
  insertReservation,
  LOCKED_FOR_GOOD,
  type Lock,
  type Reservation,
  recordFailure,
  recordSuccess,
  releaseReservation,
} from "../store/attempts.ts";
import { newId } from "../store/ids.ts";
import type { User } from "../store/users.ts";

/** A guess that is counted and may now be evaluated. */
export type Attempt = ReturnType<typeof createAttempt>;

/**
 * Age at which an attempt can no longer be ended, in ms: a guess gets no result once its
 * reservation has expired, after 30 s.
 */
const MAX_AGE_MS = 25_000;
/** How long a caller waits for other callers' guesses, and how often it retries, in ms. */
const MAX_WAIT_MS = 15_000;
const RETRY_MS = 20;
/**
 * Maximum number of logins per account that may wait in this process. Further ones get 503. Second
 * factors are limited by their MFA tokens.
 */
const MAX_WAITING = 10;
/** Interval between retries of a release while the database is unavailable, in ms. */
const RELEASE_RETRY_MS = 500;

/** How to unlock a permanently locked account. */
const WAYS = {
  password: "Please reset your password by e-mail.",
  confirmation: "Please reset your password by e-mail.",
  "second-factor": "Please use a backup code, or ask an administrator.",
  "backup-code": "Please ask an administrator.",
  device: "Please reset your password by e-mail.",
};

/** Kind and subject of each waiting caller. */
const waiting: string[] = [];

/**
 * Counts a guess before it is evaluated, so that of any number of concurrent guesses, at most as
 * many as the threshold are evaluated. Waits while the guesses in progress could lock the account.
 * @param evaluate If it does not end the attempt, the guess was not evaluated and no longer counts.
 * @param whileLocked finds another counter for the guess while this one is locked
 * @throws ServiceError ACCOUNT_LOCKED with the remaining seconds, UNAVAILABLE
 */
export async function withAttempt<T>(
  call: Call,
  key: AttemptKey,
  evaluate: (attempt: Attempt) => Promise<T>,
  whileLocked?: FindKey,
): Promise<T> {
  const attempt = await reserve(call, key, whileLocked);
  try {
    return await evaluate(attempt);
  } finally {
    await attempt.release();
  }
}

/** Finds what a guess is counted for; undefined if there is nothing else. */
type FindKey = () => Promise<AttemptKey | undefined>;

async function reserve(call: Call, key: AttemptKey, whileLocked?: FindKey): Promise<Attempt> {
  const startedAt = performance.now();
  const first = await tryReserve(call, key, whileLocked);
  if (first) return first;
  const name = `${key.kind} ${key.subject}`;
  const ahead = waiting.filter((other) => other === name).length;
  if (key.kind === "password" && ahead >= MAX_WAITING) throw tooBusy();
  waiting.push(name);
  try {
    while (performance.now() - startedAt < MAX_WAIT_MS) {
      await wait(RETRY_MS, undefined, { signal: call.signal });
      const attempt = await tryReserve(call, key, whileLocked);
      if (attempt) return attempt;
    }
    throw tooBusy();
  } finally {
    waiting.splice(waiting.indexOf(name), 1);
  }
}

/**
 * @returns undefined while the guesses in progress could lock the account
 * @throws ServiceError ACCOUNT_LOCKED
 */
async function tryReserve(
  call: Call,
  key: AttemptKey,
  whileLocked?: FindKey,
): Promise<Attempt | undefined> {
  const now = call.clock.now();
  const reservation = { ...key, id: newId(now) };
  const attempt = createAttempt(call, reservation, performance.now());
  try {
    if (await insertReservation(call, reservation, call.config, now)) return attempt;
  } catch (error) {
    void attempt.release(); // it may have been inserted nevertheless
    throw error;
  }
  const lock = await findLock(call, key, now);
  const other = lock.lockedUntil ? await whileLocked?.() : undefined;
  if (other) return tryReserve(call, other);
  refuseLocked(lock, key.kind, now);
}

/**
 * Rejects guesses while they are locked.
 * @throws ServiceError ACCOUNT_LOCKED, with the remaining seconds unless the lock is permanent
 */
export function refuseLocked(lock: Lock, kind: AttemptKey["kind"], now: Date): void {
  const { lockedUntil } = lock;
  if (!lockedUntil) return;
  const start = "The account is locked after too many failed attempts.";
  if (isForGood(lock)) throw new ServiceError(Reason.ACCOUNT_LOCKED, `${start} ${WAYS[kind]}`);
  const seconds = Math.ceil((lockedUntil.getTime() - now.getTime()) / 1000);
  const minutes = Math.ceil(seconds / 60);
  const message = `${start} Please try again in ${minutes} minute${minutes === 1 ? "" : "s"}.`;
  throw new ServiceError(Reason.ACCOUNT_LOCKED, message, { retryAfterSeconds: seconds });
}

/** Whether a lock is permanent. */
export const isForGood = ({ lockedUntil }: Lock): boolean =>
  lockedUntil?.getTime() === LOCKED_FOR_GOOD.getTime();

/**
 * Ends an attempt as failed and records the failure, and the lock it may cause, in one transaction.
 * The owner is notified by e-mail of the first lock within a day, and of wrong codes, since these
 * follow a right password.
 */
export async function recordFailedAttempt(
  call: Call,
  attempt: Attempt,
  event: "auth.login_failed" | "auth.mfa_failed",
  owner: Pick<User, "id" | "email" | "name"> | undefined,
): Promise<void> {
  const failure = { userId: owner?.id, outcome: "failure" } as const;
  const isCode = event === "auth.mfa_failed";
  const record = async (reservation: Reservation) => {
    const now = call.clock.now();
    const lockedUntil = await recordFailure(call, reservation, call.config, now, owner?.id);
    await recordAudit(call, event, failure);
    if (owner && isCode) await queueDailyEmail(call, owner, "wrong-code");
    if (!lockedUntil) return;
    const isDevice = reservation.kind === "device";
    await recordAudit(call, "auth.locked", {
      ...failure,
      details: isCode ? { factor: "second" } : isDevice ? { device: true } : {},
    });
    if (isDevice) return; // the owner knows that the account is locked
    const facts = describeLock(lockedUntil, reservation.kind);
    if (owner) await queueDailyEmail(call, owner, "account-locked", facts);
  };
  await attempt.end((reservation) => call.em.transactional(() => record(reservation)));
}

/**
 * Values for the e-mail about a lock: when it ends or, if it is permanent, which way unlocks the
 * account.
 */
const describeLock = (lockedUntil: Date, kind: AttemptKey["kind"]): Record<string, string> =>
  isForGood({ lockedUntil }) ? { way: kind } : { until: endOf(lockedUntil) };

/** @param startedAt a time before the reservation, from `performance.now()` */
function createAttempt(call: Call, reservation: Reservation, startedAt: number) {
  let ended = false;
  const isExpired = () => performance.now() - startedAt > MAX_AGE_MS;
  /**
   * Ends the attempt with a statement. If that fails, or its result is unknown, the attempt is
   * released, which cannot end any other attempt.
   */
  const end = async <T>(statement: (reservation: Reservation) => Promise<T>): Promise<T> => {
    if (isExpired()) throw tooBusy();
    const result = await statement(reservation);
    ended = true;
    return result;
  };
  const release = async (): Promise<void> => {
    if (!ended) await end(() => releaseReservation(call, reservation)).catch(() => {});
    if (!ended && !isExpired()) setTimeout(release, RELEASE_RETRY_MS).unref();
  };
  /**
   * The guess was right: resets the counter, unless the account has been locked in the meantime.
   */
  const succeed = () => end(() => recordSuccess(call, reservation));
  return { end, succeed, release };
}
