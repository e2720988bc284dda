import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { SignedInCall } from "../call.ts";
import { recordFailedAttempt, reserveAttempt } from "../lockout/reserve-attempt.ts";
import { ServiceError } from "../platform/errors.ts";
import { User } from "../store/users.ts";

/**
 * Verifies the caller's current password. Wrong ones are counted apart from logins, so that guesses of others never block a
 * user who is signed in.
 * @returns the caller's row as it stood when the password was verified.
 * @throws ServiceError INVALID_CURRENT_PASSWORD, ACCOUNT_LOCKED, UNAUTHENTICATED, UNAVAILABLE
 */
export async function confirmPassword(call: SignedInCall, password: string): Promise<User> {
  const user = await call.em.findOne(User, { id: call.caller.user.id });
  if (!user) throw new ServiceError(Reason.UNAUTHENTICATED, "This account is gone.");
  const attempt = await reserveAttempt(call, { kind: "confirmation", subject: user.id });
  try {
    if (await call.passwords.matches(user.passwordHash, password, call.client.address)) {
      await attempt.succeed();
      return user;
    }
    await recordFailedAttempt(call, attempt, "auth.login_failed", user);
  } finally {
    await attempt.release();
  }
  throw wrongPassword();
}

/** The error for a wrong current password. */
export const wrongPassword = () => new ServiceError(Reason.INVALID_CURRENT_PASSWORD, "The current password is wrong.");
