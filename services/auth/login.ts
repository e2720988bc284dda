import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { readEmailAddress } from "../accounts/email-address.ts";
import { renewHash } from "../accounts/guards.ts";
import { countWaysIn } from "../accounts/ways-in.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { guessesOfDevice } from "../devices/known-device.ts";
import { type Attempt, recordFailedAttempt, withAttempt } from "../lockout/reserve-attempt.ts";
import { needsSecondFactor, type SecondFactor, withSecondFactor } from "../mfa/second-factor.ts";
import { reasonName, ServiceError } from "../platform/rpc/errors.ts";
import { isPasswordExpired, type LoginResult, openSession } from "../sessions/open-session.ts";
import { createMfaToken, type FirstFactor, readMfaToken } from "../sessions/tokens.ts";
import { countMfaTokenAttempt, issueOneTimeToken, OneTimeToken } from "../store/one-time-tokens.ts";
import { lockIfUnchanged } from "../store/sign-in.ts";
import { countBackupCodes, findLoginUser, type LoginUser, lockUser, User } from "../store/users.ts";
import { queueRequestedReset } from "./reset-password.ts";

/** Second factors by their names in responses. */
type MfaMethod = "passkey" | "totp" | "backup-code";

/** A login that waits for its second factor. */
type PendingLogin = { tempToken: string; mfaMethods: MfaMethod[] };

export type LoginOutcome = LoginResult | PendingLogin;

/**
 * Verifies e-mail and password and opens a session, or returns an MFA token if a second factor is
 * required. An unknown address and a wrong password take the same time and return the same error.
 * While the account is locked, a device that is known to it may have its own guesses.
 * @throws ServiceError INVALID_CREDENTIALS, ACCOUNT_LOCKED, ACCOUNT_SUSPENDED, EMAIL_NOT_VERIFIED,
 * PASSWORD_EXPIRED, UNAVAILABLE
 */
export async function login(
  call: Call,
  email: string,
  password: string,
  deviceToken: string,
): Promise<LoginOutcome> {
  const { canonical } = readEmailAddress(email);
  call.passwords.assertCapacity(call.client.address);
  const evaluate = async (attempt: Attempt): Promise<LoginOutcome> => {
    const [user] = await findLoginUser(call, { email: canonical, now: call.clock.now() });
    const check = await call.passwords.check(user?.passwordHash, password, call.client.address);
    if (!user || check === "wrong") {
      await recordFailedAttempt(call, attempt, "auth.login_failed", user);
      throw invalidCredentials();
    }
    await assertMaySignIn(call, user, attempt);
    if (check === "outdated") await renewHash(call, user, password);
    const refuseChanged = async () => {
      await recordAudit(call, "auth.login_failed", { userId: user.id, outcome: "failure" });
      throw invalidCredentials(); // the password or second factor has changed since the row was read
    };
    if (needsSecondFactor(user)) {
      await attempt.succeed();
      return (await askForSecondFactor(call, user, "password")) ?? refuseChanged();
    }
    return attempt.end(
      async (reservation) =>
        (await openSession(call, user, ["password"], deviceToken, reservation)) ?? refuseChanged(),
    );
  };
  return withAttempt(call, { kind: "password", subject: canonical }, evaluate, () =>
    guessesOfDevice(call, canonical, deviceToken),
  );
}

/**
 * Rejects a correct password if the configuration does not allow the user to sign in. The reason is
 * recorded in the audit log.
 */
async function assertMaySignIn(call: Call, user: LoginUser, attempt: Attempt): Promise<void> {
  const isExpired = call.config.passwordExpiry === "refuse" && isPasswordExpired(call, user);
  if (user.suspendedAt || isUnverified(call, user) || isExpired) await attempt.succeed();
  await assertNotSuspended(call, user);
  await assertVerifiedAddress(call, user);
  if (!isExpired) return;
  await recordRefusal(call, user, Reason.PASSWORD_EXPIRED);
  await queueRequestedReset(call, user);
  throw new ServiceError(
    Reason.PASSWORD_EXPIRED,
    "Your password has expired. We have sent you an e-mail with a link to set a new one.",
  );
}

/**
 * Checks that the account of a user who has proved to be its owner is not suspended.
 * @throws ServiceError ACCOUNT_SUSPENDED
 */
export async function assertNotSuspended(
  call: Call,
  user: Pick<User, "id" | "suspendedAt">,
): Promise<void> {
  if (!user.suspendedAt) return;
  await recordRefusal(call, user, Reason.ACCOUNT_SUSPENDED);
  throw new ServiceError(
    Reason.ACCOUNT_SUSPENDED,
    "This account is suspended. Please contact an administrator.",
  );
}

const isUnverified = ({ config }: Call, { emailVerified }: Pick<User, "emailVerified">) =>
  config.requireVerifiedEmail && !emailVerified;

/**
 * Checks that the address of a user is verified, where the configuration demands it of every
 * sign-in.
 * @throws ServiceError EMAIL_NOT_VERIFIED
 */
export async function assertVerifiedAddress(
  call: Call,
  user: Pick<User, "id" | "emailVerified">,
): Promise<void> {
  if (!isUnverified(call, user)) return;
  await recordRefusal(call, user, Reason.EMAIL_NOT_VERIFIED);
  throw new ServiceError(
    Reason.EMAIL_NOT_VERIFIED,
    "Please verify your e-mail address before you sign in.",
  );
}

async function recordRefusal(call: Call, { id: userId }: Pick<User, "id">, reason: Reason) {
  const details = { reason: reasonName(reason) };
  await recordAudit(call, "auth.login_failed", { userId, outcome: "failure", details });
}

/**
 * Issues the MFA token for a login that requires a second factor. It replaces an older one.
 * @param method the first factor
 * @returns undefined if the password or second factor has changed since the row was read
 */
export async function askForSecondFactor(
  call: Call,
  user: LoginUser,
  method: FirstFactor,
): Promise<PendingLogin | undefined> {
  return call.em.transactional(async () => {
    if (!(await lockIfUnchanged(call, user, call.clock.now()))) return undefined;
    const token = await issueOneTimeToken(call, "sign-in", user, call.config.mfaTokenTtlMs);
    const tempToken = createMfaToken(call, token, method);
    return { tempToken, mfaMethods: await mfaMethodsOf(call, user) };
  });
}

/**
 * What completes the login of a user who has passkeys; empty without, since clients know the
 * others.
 */
async function mfaMethodsOf(call: Call, user: LoginUser): Promise<MfaMethod[]> {
  const { passkeys } = await countWaysIn(call, user.id);
  if (passkeys === 0) return [];
  const codes = await countBackupCodes(call, user.id);
  return [
    "passkey",
    ...(user.mfaEnabled ? (["totp"] as const) : []),
    ...(codes > 0 ? (["backup-code"] as const) : []),
  ];
}

const invalidCredentials = () =>
  new ServiceError(Reason.INVALID_CREDENTIALS, "Invalid e-mail or password.");

/** Maximum number of codes per MFA token. */
const MAX_CODES = 5;

/**
 * Completes a login with a second factor: in one transaction, the MFA token and the factor are
 * consumed and the session is opened. The code is counted before it is evaluated, for the account
 * and for the MFA token.
 * @throws ServiceError TICKET_INVALID, INVALID_CODE, ACCOUNT_LOCKED, ACCOUNT_SUSPENDED, UNAVAILABLE
 */
export async function verifyMfa(
  call: Call,
  tempToken: string,
  factor: SecondFactor,
  deviceToken: string,
): Promise<LoginResult> {
  const token = await readMfaToken(call, tempToken);
  const user = token && (await call.em.findOne(User, { id: token.userId }));
  if (!token || !user) throw invalidMfaToken();
  await assertNotSuspended(call, user); // the MFA token shows that the password was right
  const before = async () => {
    await lockUser(call, user.id);
    // false: used up, or already consumed by a concurrent caller; this code does not count as wrong
    if (!(await countMfaTokenAttempt(call, token.id, MAX_CODES))) throw invalidMfaToken();
  };
  return withSecondFactor(call, user, factor, before, async () => {
    await call.em.nativeDelete(OneTimeToken, { id: token.id });
    const method = factor.code === undefined ? "backup-code" : "totp";
    const result = await openSession(call, user, [token.method, method], deviceToken);
    if (!result) throw invalidMfaToken(); // the password or second factor has changed since the row was read
    await recordAudit(call, "auth.mfa_verified", { userId: user.id, details: { method } });
    return result;
  });
}

/** The error for an MFA token that is wrong, expired or used. */
export const invalidMfaToken = () =>
  new ServiceError(
    Reason.TICKET_INVALID,
    "The sign-in has expired or was already completed. Please sign in again.",
  );
