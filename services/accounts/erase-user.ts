import { type FilterQuery, LockMode } from "@mikro-orm/core";
import { recordAudit } from "../audit/record.ts";
import type { SystemCall } from "../call.ts";
import type { Config } from "../platform/config/config.ts";
import { deleteAttempts } from "../store/attempts.ts";
import { Email } from "../store/emails.ts";
import { anonymizeUsage } from "../store/usage.ts";
import { ADMIN_PROTECTION_MS, User } from "../store/users.ts";

/** Usage rows per statement, so that each is far shorter than the statement timeout. */
const USAGE_BATCH_SIZE = 50_000;

/**
 * Erases an account and all personal data. Usage rows stay without a user, audit events stay with
 * the id as pseudonym. Joins the caller's transaction.
 * @param isDue does not apply to a user whose row is locked
 * @returns false if there is no such user.
 */
export async function eraseUser(
  call: SystemCall,
  userId: string,
  isDue?: FilterQuery<User>,
): Promise<boolean> {
  // e-mails cannot be queued meanwhile: their foreign key waits for this lock
  const lockMode = isDue ? LockMode.PESSIMISTIC_PARTIAL_WRITE : LockMode.PESSIMISTIC_WRITE;
  const user = await call.em.findOne(User, { $and: [{ id: userId }, isDue ?? {}] }, { lockMode });
  if (!user) return false;
  await call.em.nativeDelete(Email, { userId });
  while ((await anonymizeUsage(call, userId, USAGE_BATCH_SIZE)) === USAGE_BATCH_SIZE); // the foreign key would do it in one long statement
  await call.em.nativeDelete(User, { id: userId });
  await deleteAttempts(call, user.canonicalEmail, "password");
  await deleteAttempts(call, userId, "confirmation", "second-factor", "backup-code");
  await recordAudit(call, "user.erased", { userId });
  return true;
}

/** Those whose deletion is due. */
export const deletedUsers = (now: Date): FilterQuery<User> => ({ deletionAt: { $lte: now } });

/**
 * Those who never verified an address and do not use the account, once it is old enough. A session
 * may have been in use for its whole maximum age after the sign-in. Administrators stay, and those
 * who are protected as one.
 */
export function unverifiedUsers(
  now: Date,
  config: Pick<Config, "unverifiedRetentionMs" | "sessionMaxAgeMs">,
): FilterQuery<User> {
  const before = new Date(now.getTime() - config.unverifiedRetentionMs);
  const demotedBefore = new Date(now.getTime() - ADMIN_PROTECTION_MS);
  const signedInBefore = new Date(before.getTime() - config.sessionMaxAgeMs);
  const isUnprotected = { $or: [{ demotedAt: null }, { demotedAt: { $lte: demotedBefore } }] };
  const isUnused = { $or: [{ lastLoginAt: null }, { lastLoginAt: { $lte: signedInBefore } }] };
  return {
    emailVerifiedAt: null,
    wasVerified: false,
    role: "user",
    createdAt: { $lte: before },
    $and: [isUnused, isUnprotected],
  };
}

/** Accounts per query. Each is erased in a transaction of its own. */
const BATCH_SIZE = 20;

/**
 * Erases users, unless a sign-in has changed what makes them due or another process is erasing
 * them.
 * @param isDue which users
 * @param signal stops between two accounts
 * @throws the first error of an account that could not be erased, after the others were
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
