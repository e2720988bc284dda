import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { SignedInCall } from "../call.ts";
import { recordFailedAttempt, reserveAttempt } from "../lockout/reserve-attempt.ts";
import { ServiceError } from "../platform/errors.ts";
import { User } from "../store/users.ts";

/**
 * Verifies the caller's current password. A wrong one counts like a wrong login.
 * @returns the caller's row as it stood when the password was verified.
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
    await recordFailedAttempt(call, attempt, "auth.login_failed", user.id);
  } finally {
    await attempt.release();
  }
  throw wrongPassword();
}

/** The error for a wrong current password. */
export function wrongPassword(): ServiceError {
  return new ServiceError(Reason.INVALID_CURRENT_PASSWORD, "The current password is wrong.");
}
