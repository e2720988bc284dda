import { type FilterQuery, LockMode } from "@mikro-orm/core";
import { recordAudit } from "../audit/record.ts";
import type { SystemCall } from "../call.ts";
import type { Config } from "../platform/config/config.ts";
import { deleteAttempts } from "../store/attempts.ts";
import { deleteDevices } from "../store/devices.ts";
import { Email } from "../store/emails.ts";
import { deleteBudgetsOf } from "../store/managed-budgets.ts";
import { anonymizeUsage } from "../store/usage.ts";
import { ADMIN_PROTECTION_MS, User } from "../store/users.ts";

/** Number of usage rows per statement, small enough to stay far below the statement timeout. */
const USAGE_BATCH_SIZE = 50_000;

/**
 * Erases an account and all personal data. Usage rows are kept without a user, and audit events
 * with the user id as a pseudonym. Joins the caller's transaction.
 * @param isDue additional condition; with it, a user whose row is locked is skipped
 * @returns false if there is no such user
 */
export async function eraseUser(
  call: SystemCall,
  userId: string,
  isDue?: FilterQuery<User>,
): Promise<boolean> {
  // no e-mail can be queued in the meantime, because its foreign key waits for this lock
  const lockMode = isDue ? LockMode.PESSIMISTIC_PARTIAL_WRITE : LockMode.PESSIMISTIC_WRITE;
  const user = await call.em.findOne(User, { $and: [{ id: userId }, isDue ?? {}] }, { lockMode });
  if (!user) return false;
  await call.em.nativeDelete(Email, { userId });
  while ((await anonymizeUsage(call, userId, USAGE_BATCH_SIZE)) === USAGE_BATCH_SIZE); // left to the foreign key, it would be one long statement
  await deleteDevices(call, userId);
  await deleteBudgetsOf(call, userId);
  await call.em.nativeDelete(User, { id: userId });
  await deleteAttempts(call, user.canonicalEmail, "password");
  await deleteAttempts(call, userId, "confirmation", "second-factor", "backup-code");
  await recordAudit(call, "user.erased", { userId });
  return true;
}

/** Users who are due for deletion. */
export const deletedUsers = (now: Date): FilterQuery<User> => ({ deletionAt: { $lte: now } });

/**
 * Users who never verified an address, and are neither service accounts nor protected as
 * administrators.
 */
function neverVerified(now: Date) {
  const demotedBefore = new Date(now.getTime() - ADMIN_PROTECTION_MS);
  return {
    emailVerifiedAt: null,
    wasVerified: false,
    isService: false,
    role: "user",
    $or: [{ demotedAt: null }, { demotedAt: { $lte: demotedBefore } }],
  } satisfies FilterQuery<User>;
}

/**
 * Users whose account may have been created by anyone, since no address was ever verified. Excludes
 * suspended users.
 */
export const unownedUsers = (now: Date): FilterQuery<User> => ({
  ...neverVerified(now),
  suspendedAt: null,
});

/**
 * Users who never verified an address and do not use their account, once it is old enough. After
 * the last sign-in, a session may have been used for its maximum lifetime. Excludes service
 * accounts and users who are protected as administrators.
 */
export function unverifiedUsers(
  now: Date,
  config: Pick<Config, "unverifiedRetentionMs" | "sessionMaxAgeMs">,
): FilterQuery<User> {
  const before = new Date(now.getTime() - config.unverifiedRetentionMs);
  const signedInBefore = new Date(before.getTime() - config.sessionMaxAgeMs);
  const isUnused = { $or: [{ lastLoginAt: null }, { lastLoginAt: { $lte: signedInBefore } }] };
  return { ...neverVerified(now), createdAt: { $lte: before }, $and: [isUnused] };
}

/** Number of accounts per query. Each account is erased in its own transaction. */
const BATCH_SIZE = 20;

/**
 * Erases all users that match, except those who have signed in since or are being erased by another
 * process.
 * @param isDue which users to erase
 * @param signal stops the run between two accounts
 * @throws the first error, after all other accounts have been tried
 */
export async function purgeUsers(
  createCall: () => SystemCall,
  isDue: FilterQuery<User>,
  signal: AbortSignal,
): Promise<void> {
  const failures: unknown[] = [];
  for (let erased = BATCH_SIZE; erased === BATCH_SIZE; ) {
    erased = 0;
    const call = createCall();
    const orderBy = { deletionAt: "asc", id: "asc" } as const;
    const due = await call.em.find(User, isDue, {
      fields: ["id"],
      orderBy,
      limit: BATCH_SIZE,
    });
    for (const { id } of due) {
      if (signal.aborted) break;
      const own = createCall();
      const erasure = own.em.transactional(() => eraseUser(own, id, isDue));
      if (await erasure.catch((error) => void failures.push(error))) erased++;
    }
  }
  if (failures.length > 0) throw failures[0];
}
