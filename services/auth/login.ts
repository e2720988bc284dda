import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { readEmailAddress } from "../accounts/email-address.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { issueOneTimeToken } from "../crypto/one-time-token.ts";
import { type Attempt, recordFailedAttempt, reserveAttempt } from "../lockout/reserve-attempt.ts";
import { reasonName, ServiceError } from "../platform/errors.ts";
import { isPasswordExpired, type LoginResult, openSession } from "../sessions/open-session.ts";
import { createMfaToken } from "../sessions/tokens.ts";
import { lockIfUnchanged } from "../store/sign-in.ts";
import { findLoginUser, type LoginUser, User } from "../store/users.ts";
import { queueReset } from "./mail-token.ts";

export type LoginOutcome = LoginResult | { mfaToken: string };

/**
 * Verifies e-mail and password and opens a session, or returns an MFA token if a second factor is required.
 * An unknown address and a wrong password take the same time and return the same error.
 * @throws ServiceError INVALID_CREDENTIALS, ACCOUNT_LOCKED, EMAIL_NOT_VERIFIED, PASSWORD_EXPIRED, UNAVAILABLE
 */
export async function login(call: Call, email: string, password: string): Promise<LoginOutcome> {
  const { canonical } = readEmailAddress(email);
  call.passwords.assertCapacity(call.client.address);
  const attempt = await reserveAttempt(call, { kind: "password", subject: canonical });
  try {
    const user = await findLoginUser(call, canonical, call.clock.now());
    const matches = await call.passwords.matches(user?.passwordHash, password, call.client.address);
    if (!user || !matches) {
      await recordFailedAttempt(call, attempt, "auth.login_failed", user);
      throw invalidCredentials();
    }
    await assertMaySignIn(call, user, attempt);
    if (call.passwords.isOutdated(user.passwordHash)) {
      const passwordHash = await call.passwords.hash(password, call.client.address);
      await call.em.nativeUpdate(User, { id: user.id, passwordHash: user.passwordHash }, { passwordHash });
    }
    const outcome = user.mfaEnabled
      ? await requireSecondFactor(call, user, attempt)
      : await attempt.succeedWith((reservation) => openSession(call, user, reservation));
    if (!outcome) {
      await recordAudit(call, "auth.login_failed", { userId: user.id, outcome: "failure" });
      throw invalidCredentials(); // password or second factor have changed since the row was read
    }
    return outcome;
  } finally {
    await attempt.release();
  }
}

/** Rejects a correct password that the configuration does not allow to sign in. The audit log has the reason. */
async function assertMaySignIn(call: Call, user: LoginUser, attempt: Attempt): Promise<void> {
  const refuse = async (reason: Reason, message: string) => {
    await attempt.succeed();
    const details = { reason: reasonName(reason) };
    await recordAudit(call, "auth.login_failed", { userId: user.id, outcome: "failure", details });
    if (reason === Reason.PASSWORD_EXPIRED) await queueReset(call, user);
    throw new ServiceError(reason, message);
  };
  const { requireVerifiedEmail, passwordExpiry } = call.config;
  if (requireVerifiedEmail && !user.emailVerified)
    await refuse(Reason.EMAIL_NOT_VERIFIED, "Please confirm your e-mail address first, then sign in.");
  if (passwordExpiry === "refuse" && isPasswordExpired(call, user))
    await refuse(Reason.PASSWORD_EXPIRED, "Your password is too old. We have mailed you a link to set a new one.");
}

/** Issues the MFA token of a login that waits for its second factor. It replaces an older one. */
async function requireSecondFactor(call: Call, user: LoginUser, attempt: Attempt): Promise<LoginOutcome | undefined> {
  await attempt.succeed();
  return call.em.transactional(async () => {
    if (!(await lockIfUnchanged(call, user, call.clock.now()))) return undefined;
    const token = await issueOneTimeToken(call, "sign-in", user, call.config.mfaTokenTtlMs);
    return { mfaToken: createMfaToken(call, token) };
  });
}

const invalidCredentials = () => new ServiceError(Reason.INVALID_CREDENTIALS, "Invalid e-mail or password.");
