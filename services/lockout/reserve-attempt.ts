import { setTimeout as wait } from "node:timers/promises";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { type AuditDeps, recordAudit } from "../audit/record.ts";
import { type QueueDeps, queueDailyEmail } from "../mail/queue.ts";
import { ServiceError, tooBusy } from "../platform/errors.ts";
import type { Clock } from "../platform/process.ts";
import {
  type AttemptKey,
  findLock,
  insertReservation,
  LOCKED_FOR_GOOD,
  type Lock,
  type LockoutConfig,
  type Reservation,
  recordFailure,
  recordSuccess,
  releaseReservation,
} from "../store/attempts.ts";
import type { Db, HotDb } from "../store/store.ts";
import { newId } from "../store/store.ts";
import type { User } from "../store/users.ts";

/** A guess that is counted and may be evaluated. End it once: by `succeed`, `succeedWith`, `fail` or `release`. */
export type Attempt = ReturnType<typeof createAttempt>;

/** An attempt of this age can no longer end, in ms: a guess gets no result once its reservation has expired, after 30 s. */
const MAX_AGE_MS = 25_000;
/** How long a caller waits for the guesses of others, and how often it retries, in ms. */
const MAX_WAIT_MS = 15_000;
const RETRY_MS = 20;
/** Logins of one account that may wait in this process. Further ones get 503. MFA tokens bound second factors. */
const MAX_WAITING = 10;
/** Interval between retries of a release while the database is unavailable, in ms. */
const RELEASE_RETRY_MS = 500;

/** What opens an account that is locked for good. */
const WAYS = {
  password: "Please reset your password by e-mail.",
  confirmation: "Please reset your password by e-mail.",
  "second-factor": "Please use a backup code, or ask an administrator.",
  "backup-code": "Please ask an administrator.",
};

/** Kind and subject of each caller that waits. */
const waiting: string[] = [];

type Deps = Db & HotDb & { clock: Clock; config: LockoutConfig; signal: AbortSignal };

/**
 * Counts a guess before it is evaluated, so that of any number of parallel guesses no more than the threshold are
 * evaluated. Waits while the guesses in progress could lock the account.
 * @throws ServiceError ACCOUNT_LOCKED with the seconds left, UNAVAILABLE
 */
export async function reserveAttempt(call: Deps, key: AttemptKey): Promise<Attempt> {
  const startedAt = performance.now();
  let attempt = await tryReserve(call, key);
  if (attempt) return attempt;
  const name = `${key.kind} ${key.subject}`;
  const ahead = waiting.filter((other) => other === name).length;
  if (key.kind === "password" && ahead >= MAX_WAITING) throw tooBusy();
  waiting.push(name);
  try {
    while (!attempt && performance.now() - startedAt < MAX_WAIT_MS) {
      await wait(RETRY_MS, undefined, { signal: call.signal });
      attempt = await tryReserve(call, key);
    }
  } finally {
    waiting.splice(waiting.indexOf(name), 1);
  }
  if (!attempt) throw tooBusy();
  return attempt;
}

/** @returns undefined while the guesses in progress could lock the account. @throws ServiceError ACCOUNT_LOCKED */
async function tryReserve(call: Deps, key: AttemptKey): Promise<Attempt | undefined> {
  const now = call.clock.now();
  const reservation = { ...key, id: newId(now) };
  const attempt = createAttempt(call, reservation, performance.now());
  try {
    if (await insertReservation(call, reservation, call.config, now)) return attempt;
  } catch (error) {
    void attempt.release(); // it may have been inserted
    throw error;
  }
  refuseLocked(await findLock(call, key, now), key.kind, now);
}

/** Refuses guesses while they are locked. @throws ServiceError ACCOUNT_LOCKED, with the seconds left if time ends the lock */
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

/** Whether a lock is ended by no time. */
export const isForGood = ({ lockedUntil }: Lock): boolean => lockedUntil?.getTime() === LOCKED_FOR_GOOD.getTime();

/**
 * Ends an attempt as failed and records the failure, and the lock it may cause, in one transaction. An e-mail
 * notifies the owner of the first lock of a day, and of wrong codes, since the password before them was right.
 */
export async function recordFailedAttempt(
  call: AuditDeps & QueueDeps,
  attempt: Attempt,
  event: "auth.login_failed" | "auth.mfa_failed",
  owner: Pick<User, "id" | "email" | "name"> | undefined,
): Promise<void> {
  const userId = owner?.id;
  const isCode = event === "auth.mfa_failed";
  await attempt.fail(userId, async (locked) => {
    await recordAudit(call, event, { userId, outcome: "failure" });
    if (owner && isCode) await queueDailyEmail(call, owner, "wrong-code");
    if (!locked) return;
    const details = isCode ? { factor: "second" } : {};
    await recordAudit(call, "auth.locked", { userId, outcome: "failure", details });
    if (owner) await queueDailyEmail(call, owner, "account-locked");
  });
}

/** @param startedAt from before the reservation, by `performance.now()` */
function createAttempt(call: Deps, reservation: Reservation, startedAt: number) {
  let ended = false;
  const isExpired = () => performance.now() - startedAt > MAX_AGE_MS;
  /** If the statement fails, or its result is unknown, the attempt is released: that ends no other one. */
  const end = async <T>(statement: () => Promise<T>): Promise<T> => {
    if (isExpired()) throw tooBusy();
    const result = await statement();
    ended = true;
    return result;
  };
  const tryRelease = async (): Promise<void> => {
    await end(() => releaseReservation(call, reservation)).catch(() => {});
    if (!ended && !isExpired()) setTimeout(tryRelease, RELEASE_RETRY_MS).unref();
  };
  return {
    /** The guess was right: the counter is reset, unless the account has been locked meanwhile. */
    succeed: () => end(() => recordSuccess(call, reservation)),
    /** The same in a statement of the caller, which returns undefined if it changed nothing. */
    async succeedWith<T>(run: (reservation: Reservation) => Promise<T | undefined>): Promise<T | undefined> {
      const result = await end(() => run(reservation));
      if (result === undefined) ended = false;
      return result;
    },
    /** The guess was wrong. `record` runs in the same transaction, with whether that locks the account of the owner. */
    fail: (ownerId: string | undefined, record: (locked: boolean) => Promise<void>) =>
      end(() =>
        call.em.transactional(async () => {
          await record(await recordFailure(call, reservation, call.config, call.clock.now(), ownerId));
        }),
      ),
    /** The guess was not evaluated: it no longer counts. Does nothing if the attempt has ended. */
    release: () => (ended ? Promise.resolve() : tryRelease()),
  };
}
