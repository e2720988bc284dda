import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call, SignedInCall } from "../call.ts";
import { type Attempt, reserveAttempt } from "../lockout/attempts.ts";
import { ServiceError } from "../platform/errors.ts";
import { User } from "../store/user.ts";

/**
 * Asks the caller's present password again; a wrong one counts like a wrong login.
 * @returns the caller's row, as it stood when the password was right.
 * @throws ServiceError INVALID_CURRENT_PASSWORD, ACCOUNT_LOCKED, UNAUTHENTICATED, UNAVAILABLE
 */
export async function confirmPassword(call: SignedInCall, password: string): Promise<User> {
  const user = await call.em.findOne(User, { id: call.caller.user.id });
  if (!user) throw new ServiceError(Reason.UNAUTHENTICATED, "This account is gone.");
  const attempt = await reserveAttempt(call, { kind: "password", subject: user.canonicalEmail });
  try {
    if (await call.passwords.matches(user.passwordHash, password)) {
      await attempt.succeed();
      return user;
    }
    await recordWrongPassword(call, attempt, user.id);
  } finally {
    await attempt.release();
  }
  throw wrongPassword();
}

/** The answer to a wrong present password. */
export function wrongPassword(): ServiceError {
  return new ServiceError(Reason.INVALID_CURRENT_PASSWORD, "The current password is wrong.");
}

/** Settles a wrong guess and records it; survives the refusal that follows. */
export async function recordWrongPassword(
  call: Call,
  attempt: Attempt | undefined,
  userId: string | undefined,
): Promise<void> {
  const locked = await attempt?.fail();
  await recordAudit(call, "auth.login_failed", { userId, outcome: "failure" });
  if (locked) await recordAudit(call, "auth.locked", { userId, outcome: "failure" });
}
