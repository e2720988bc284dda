import { setTimeout as wait } from "node:timers/promises";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ACCOUNT_COLUMNS, type AccountRow, type LoginAccount, toLoginAccount } from "../accounts/login-account.ts";
import type { Clock } from "../platform/clock.ts";
import type { Config } from "../platform/config.ts";
import { ServiceError, tooBusy } from "../platform/errors.ts";
import type { Db, HotDb, Statement } from "../store/store.ts";

/** Guesses are counted per e-mail address for passwords and per user for second factors. */
export type AttemptKey = { kind: "password" | "second-factor"; subject: string };

/** One guess that has been counted and may now be looked at. Settle it once. */
export type Attempt = {
  /** Read on the same trip as the guess is counted; undefined for second factors, and where there is no account. */
  account: LoginAccount | undefined;
  /** The guess was right: the counter starts anew, unless a lock has come about. */
  succeed(): Promise<void>;
  /**
   * The same, as part of the caller's own statement, which includes `SETTLE_RIGHT_PASSWORD` for this subject, or returns
   * undefined because it did nothing.
   */
  succeedWith<T>(statement: (subject: string) => Promise<T>): Promise<T>;
  /** The guess was wrong. @returns whether that locks the account. */
  fail(): Promise<boolean>;
  /** The guess was not evaluated after all: takes it back. Does nothing once settled. */
  release(): Promise<void>;
};

/** A guess that was never settled, its process having died, counts as wrong after this time in ms. */
const ABANDONED_MS = 30_000;
/** How long a caller waits for guesses in flight to be settled, and how often it looks, in ms. */
const MAX_WAIT_MS = 15_000;
const POLL_INTERVAL_MS = 20;

type Deps = Db & HotDb & { clock: Clock; config: Pick<Config, "lockout">; signal: AbortSignal };

/**
 * Counts a guess before it is looked at, so that however many arrive at once no more than the threshold are evaluated.
 * While others are being evaluated and could lock the account, it waits for them.
 * @throws ServiceError ACCOUNT_LOCKED with the seconds that are left, UNAVAILABLE
 */
export async function reserveAttempt(call: Deps, key: AttemptKey): Promise<Attempt> {
  for (const until = performance.now() + MAX_WAIT_MS; performance.now() < until; ) {
    const { reserved, account } = await reserve(call, key);
    if (reserved) return attemptOf(call, key, account);
    await refuseIfLocked(call, key);
    await wait(POLL_INTERVAL_MS, undefined, { signal: call.signal });
  }
  throw tooBusy();
}

/** Forgets wrong guesses and the lock they led to. */
export async function clearLock(call: Db, { kind, subject }: AttemptKey): Promise<void> {
  await call.em.execute("delete from attempts where kind = ? and subject = ?", [kind, subject]);
}

/**
 * Lets a commit go without waiting for the disk (PostgreSQL 20.5): for what a crash of the database may forget, since
 * forgetting it lets nobody guess more often. A failure is never among it.
 */
const ASYNC_COMMIT = "set_config('synchronous_commit', 'off', true) as unhurried";

/** A failure counts until the reset time has passed since the last one, and not beyond a lock. */
const LIVE_FAILURES = "(case when a.locked_until is null and a.failed_at > ? then a.failed else 0 end)";

/** Guesses whose process has died count as failures from the next guess on, so that a right one forgets them too. */
const ABANDONED = "(case when a.locked_until is null and a.reserved_at < $6 then a.reserved else 0 end)";

/** Counts a guess and reads the account that a password is guessed of: one round trip. */
const RESERVE: Statement = {
  name: "reserve_attempt",
  text: `with counted as (
     insert into attempts as a (kind, subject, reserved, reserved_at)
     select $1::text, $2::text, 1, $3::timestamptz from ${ASYNC_COMMIT}
     on conflict (kind, subject) do update set
       failed = ${LIVE_FAILURES.replaceAll("?", "$4")} + ${ABANDONED},
       failed_at = case when ${ABANDONED} > 0 then greatest(a.failed_at, a.reserved_at) else a.failed_at end,
       reserved = (case when a.locked_until is null then a.reserved else 0 end) - ${ABANDONED} + 1,
       reserved_at = excluded.reserved_at,
       locked_until = null
     where a.locked_until <= $3
       or (a.locked_until is null and ${LIVE_FAILURES.replaceAll("?", "$4")} + a.reserved < $5)
     returning kind)
   select exists (select from counted) as reserved, ${ACCOUNT_COLUMNS}
   from (values ($1::text)) as asked (kind) left join users as u on asked.kind = 'password' and u.canonical_email = $2`,
};

async function reserve({ query, clock, config }: Deps, { kind, subject }: AttemptKey) {
  const now = clock.now();
  const forgetAt = new Date(now.getTime() - config.lockout.resetMs);
  const abandonedAt = new Date(now.getTime() - ABANDONED_MS);
  const values = [kind, subject, now, forgetAt, config.lockout.threshold, abandonedAt];
  const [row] = await query<{ reserved: boolean } & AccountRow>(RESERVE, values);
  return { reserved: row?.reserved ?? false, account: row && toLoginAccount(row) };
}

/**
 * Part of a statement that signs a user in (`signed`): the password was right. The user's row is locked by then, as locks are
 * taken in that order everywhere. Takes the subject; nothing happens where it is null.
 */
export const SETTLE_RIGHT_PASSWORD = `settled as (
    update attempts as a set reserved = greatest(a.reserved - 1, 0), failed = 0, failed_at = null
    from signed
    where a.kind = 'password' and a.subject = ? and a.locked_until is null)`;

async function refuseIfLocked({ em, clock, config }: Deps, { kind, subject }: AttemptKey): Promise<void> {
  const now = clock.now();
  await em.execute(
    `update attempts set failed = failed + reserved, reserved = 0, failed_at = reserved_at, locked_until = ?
     where kind = ? and subject = ? and locked_until is null and reserved > 0 and reserved_at < ?`,
    [new Date(now.getTime() + config.lockout.durationMs), kind, subject, new Date(now.getTime() - ABANDONED_MS)],
  );
  const [row] = await em.execute<{ locked_until: string }[]>(
    "select locked_until from attempts where kind = ? and subject = ? and locked_until > ?",
    [kind, subject, now],
  );
  if (!row) return;
  const seconds = Math.ceil((new Date(row.locked_until).getTime() - now.getTime()) / 1000);
  const minutes = Math.ceil(seconds / 60);
  throw new ServiceError(
    Reason.ACCOUNT_LOCKED,
    `The account is locked after too many failed attempts. Please try again in ${minutes} minute${minutes === 1 ? "" : "s"}.`,
    { retryAfterSeconds: seconds },
  );
}

/** Removes a counter that holds only this guess: a client that is refused leaves no counter for each address it tries. */
async function forget(em: Deps["em"], kind: string, subject: string): Promise<boolean> {
  const rows = await em.execute<unknown[]>(
    `delete from attempts as a using ${ASYNC_COMMIT}
     where kind = ? and subject = ? and reserved <= 1 and failed = 0 returning kind`,
    [kind, subject],
  );
  return rows.length > 0;
}

function attemptOf(call: Deps, { kind, subject }: AttemptKey, account: LoginAccount | undefined): Attempt {
  const { clock, config } = call; // not `em`: most guesses are right, and settled without it
  let settled = false;
  const settle = async (assignments: string, values: unknown[], from = "") => {
    settled = true;
    const [row] = await call.em.execute<{ locked: boolean }[]>(
      `update attempts as a set reserved = greatest(a.reserved - 1, 0), ${assignments} ${from}
       where kind = ? and subject = ? and locked_until is null returning locked_until is not null as locked`,
      [...values, kind, subject],
    );
    return row?.locked ?? false;
  };
  return {
    account,
    async succeedWith(statement) {
      const outcome = await statement(subject);
      settled = outcome !== undefined;
      return outcome;
    },
    succeed: async () => void (await settle("failed = 0, failed_at = null", [], `from ${ASYNC_COMMIT}`)),
    fail: () => {
      const now = clock.now();
      const forgetAt = new Date(now.getTime() - config.lockout.resetMs);
      return settle(
        `failed = ${LIVE_FAILURES} + 1, failed_at = ?,
         locked_until = case when ${LIVE_FAILURES} + 1 >= ? then ?::timestamptz end`,
        [forgetAt, now, forgetAt, config.lockout.threshold, new Date(now.getTime() + config.lockout.durationMs)],
      );
    },
    async release() {
      if (settled || (await forget(call.em, kind, subject))) return;
      await settle("failed = a.failed", [], `from ${ASYNC_COMMIT}`);
    },
  };
}
