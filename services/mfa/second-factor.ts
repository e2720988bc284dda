import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { type Attempt, reserveAttempt } from "../lockout/attempts.ts";
import { queueEmail } from "../mail/queue.ts";
import { ServiceError } from "../platform/errors.ts";
import { consumeBackupCode } from "./backup-codes.ts";
import { matchingStep } from "./totp.ts";

/** What a person presents: a code of the authenticator, or one of the backup codes. */
export type SecondFactor = { code: string } | { backupCode: string };

/** The columns of a user that the second factor is checked with. */
export type SecondFactorOwner = {
  id: string;
  email: string;
  name: string;
  mfaSecret?: string | null | undefined;
};

/**
 * Uses a factor up, in the transaction of what it allows and with the user's row locked: a code's step is marked by a
 * guarded statement, a backup code is deleted. Of parallel uses exactly one succeeds.
 * @returns whether the factor was right.
 */
async function consumeSecondFactor(call: Call, user: SecondFactorOwner, factor: SecondFactor): Promise<boolean> {
  if (!user.mfaSecret) return false;
  if ("backupCode" in factor) return useBackupCode(call, user, factor.backupCode);
  const step = await matchingStep(call, { id: user.id, sealed: user.mfaSecret }, factor.code);
  if (step === undefined) return false;
  const marked = await call.em.execute<unknown[]>(
    `update users set mfa_last_step = ?, mfa_confirmed_at = coalesce(mfa_confirmed_at, ?)
     where id = ? and mfa_secret = ? and (mfa_last_step is null or mfa_last_step < ?) returning id`,
    [step, call.clock.now(), user.id, user.mfaSecret, step],
  );
  return marked.length > 0;
}

async function useBackupCode(call: Call, user: SecondFactorOwner, code: string): Promise<boolean> {
  const left = await consumeBackupCode(call, user.id, code);
  if (left === undefined) return false;
  await recordAudit(call, "auth.backup_code_used", { userId: user.id, details: { left } });
  await queueEmail(call, {
    userId: user.id,
    to: user.email,
    template: "backup-code-used",
    variables: { name: user.name, left: String(left) },
  });
  return true;
}

/**
 * Does something that a second factor allows, in one transaction with using the factor up. A wrong one is counted
 * apart from wrong passwords, and its count survives the refusal.
 * @param reserved the guess, if the method's lockout has counted it already.
 * @param work is done inside the transaction, with the factor used up.
 * @throws ServiceError INVALID_CODE, ACCOUNT_LOCKED
 */
export async function withSecondFactor<T>(
  call: Call,
  user: SecondFactorOwner,
  factor: SecondFactor,
  reserved: Attempt | undefined,
  { before, work }: { before: () => Promise<void>; work: () => Promise<T> },
): Promise<T> {
  const attempt = reserved ?? (await reserveAttempt(call, { kind: "second-factor", subject: user.id }));
  try {
    const outcome = await call.em.transactional(async () => {
      await before();
      return (await consumeSecondFactor(call, user, factor)) ? { done: await work() } : undefined;
    });
    if (outcome) {
      await attempt.succeed();
      return outcome.done;
    }
    const locked = await attempt.fail();
    await recordAudit(call, "auth.mfa_failed", { userId: user.id, outcome: "failure" });
    if (locked) {
      await recordAudit(call, "auth.locked", { userId: user.id, outcome: "failure", details: { factor: "second" } });
    }
  } finally {
    await attempt.release();
  }
  throw new ServiceError(Reason.INVALID_CODE, "This code is wrong, too old or already used.");
}
