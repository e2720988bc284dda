import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { readEmailAddress } from "../accounts/email-address.ts";
import { isDeletionDue } from "../accounts/find-user.ts";
import type { LoginAccount } from "../accounts/login-account.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import type { Attempt } from "../lockout/attempts.ts";
import { issueMfaToken } from "../mfa/mfa-token.ts";
import { reasonName, ServiceError } from "../platform/errors.ts";
import {
  isPasswordExpired,
  type LoginResult,
  type LoginUser,
  lockIfUnchanged,
  openSession,
} from "../sessions/open-session.ts";
import { recordWrongPassword } from "./confirm-password.ts";
import { queueReset } from "./forgot-password.ts";

/** What became of a login. */
export type LoginOutcome = ({ kind: "signed-in" } & LoginResult) | { kind: "mfa-required"; mfaToken: string };

/**
 * Checks credentials and opens a session, or asks for the second factor. The guess has been counted before it gets here
 * (see the limit interceptor). Unknown address and wrong password cost the same and read the same.
 * @throws ServiceError INVALID_CREDENTIALS, EMAIL_NOT_VERIFIED, PASSWORD_EXPIRED, UNAVAILABLE
 */
export async function login(call: Call, email: string, password: string): Promise<LoginOutcome> {
  readEmailAddress(email);
  const attempt = attemptOf(call);
  const user = attempt.account && !isDeletionDue(attempt.account, call.clock.now()) ? attempt.account : undefined;
  const matches = await call.passwords.matches(user?.passwordHash, password);
  if (!user || !matches) {
    await recordWrongPassword(call, attempt, user?.id);
    throw invalidCredentials();
  }
  if (call.config.requireVerifiedEmail && !user.emailVerified) {
    await recordRightPassword(call, attempt, user.id, Reason.EMAIL_NOT_VERIFIED);
    throw new ServiceError(Reason.EMAIL_NOT_VERIFIED, "Please confirm your e-mail address first, then sign in.");
  }
  if (call.config.refuseExpiredPasswords && isPasswordExpired(call, user)) {
    await recordRightPassword(call, attempt, user.id, Reason.PASSWORD_EXPIRED);
    await queueReset(call, user);
    throw new ServiceError(
      Reason.PASSWORD_EXPIRED,
      "Your password is too old. We have mailed you a link to set a new one.",
    );
  }
  if (call.passwords.isOutdated(user.passwordHash)) await rehash(call, user, password);
  const outcome = await (user.mfaEnabled ? askForFactor(call, user, attempt) : open(call, user, attempt));
  if (!outcome) {
    await recordAudit(call, "auth.login_failed", { userId: user.id, outcome: "failure" });
    throw invalidCredentials(); // password or second factor have just been changed
  }
  return outcome;
}

/** Settles a right guess that opens nothing, and records why; survives the refusal that follows. */
async function recordRightPassword(call: Call, attempt: Attempt, userId: string, reason: Reason): Promise<void> {
  await attempt.succeed();
  await recordAudit(call, "auth.login_failed", { userId, outcome: "failure", details: { reason: reasonName(reason) } });
}

async function open(call: Call, user: LoginUser, attempt: Attempt): Promise<LoginOutcome | undefined> {
  const signedIn = await attempt.succeedWith((subject) => openSession(call, user, subject));
  return signedIn && { kind: "signed-in", ...signedIn };
}

async function askForFactor(call: Call, user: LoginUser, attempt: Attempt): Promise<LoginOutcome | undefined> {
  await attempt.succeed();
  return call.em.transactional(async () => {
    if (!(await lockIfUnchanged(call, user))) return undefined;
    return { kind: "mfa-required", mfaToken: await issueMfaToken(call, user) };
  });
}

async function rehash(call: Call, user: LoginAccount, password: string): Promise<void> {
  const passwordHash = await call.passwords.hash(password);
  await call.em.execute("update users set password_hash = ? where id = ? and password_hash = ?", [
    passwordHash,
    user.id,
    user.passwordHash,
  ]);
}

/** The guess that the limit interceptor has counted. */
function attemptOf({ attempt }: Call): Attempt {
  if (!attempt) throw new Error("no guess was counted: the method's policy names no lockout");
  return attempt;
}

function invalidCredentials(): ServiceError {
  return new ServiceError(Reason.INVALID_CREDENTIALS, "Invalid e-mail or password.");
}
