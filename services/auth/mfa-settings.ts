import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import {
  assertRecentSignIn,
  confirmPassword,
  confirmRecently,
  lockCaller,
} from "../accounts/guards.ts";
import { assertFactorRemains, countWaysIn } from "../accounts/ways-in.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { queueEmail } from "../mail/queue.ts";
import {
  createBackupCodeSet,
  disableAuthenticator,
  otpauthUri,
  type SecondFactor,
  totpContext,
  withSecondFactor,
} from "../mfa/second-factor.ts";
import { invalid, ServiceError } from "../platform/rpc/errors.ts";
import { invalidateOneTimeTokens } from "../store/one-time-tokens.ts";
import { countBackupCodes, replaceBackupCodes, User } from "../store/users.ts";

/**
 * Creates backup codes and a TOTP secret of 160 bits for SHA-1, 6 digits and 30 seconds, which
 * every authenticator app supports. A second factor is required from the next login on. Until the
 * first code has been accepted, another call replaces both. A stolen access token must not suffice
 * to add a factor, so a recent sign-in or the password is required.
 * @returns what is shown once and stored encrypted or as digests; `qrCode` is a data URL
 * @throws ServiceError REAUTHENTICATION_REQUIRED, INVALID_CURRENT_PASSWORD, ACCOUNT_LOCKED,
 * MFA_ALREADY_ENABLED
 */
export async function setupTotp(call: SessionCall, password: string | undefined) {
  const { user } = call.principal;
  await confirmRecently(call, password);
  const { generateSecret } = await import("otplib"); // both are large, hence loaded on first use
  const { toDataURL } = await import("qrcode");
  const secret = generateSecret();
  const qrCode = await toDataURL(await otpauthUri(call.config, user.email, secret));
  const backupCodes = await call.em.transactional(async () => {
    await lockCaller(call);
    const mfaSecret = call.cipher.encrypt(secret, totpContext(user.id));
    const changes = { mfaSecret, updatedAt: call.clock.now() };
    if ((await call.em.nativeUpdate(User, { id: user.id, mfaConfirmedAt: null }, changes)) === 0) {
      throw new ServiceError(
        Reason.MFA_ALREADY_ENABLED,
        "Two-factor authentication is already enabled. Please disable it first.",
      );
    }
    await recordAudit(call, "auth.mfa_setup", { userId: user.id });
    await queueEmail(call, user, "mfa-enabled");
    return createBackupCodeSet(call, user.id);
  });
  return { secret, qrCode, backupCodes };
}

/**
 * Disables the second factor. Once a first code has been accepted, a code or backup code is
 * required.
 * @throws ServiceError MFA_NOT_ENABLED, INVALID_CURRENT_PASSWORD, INVALID_CODE, VALIDATION_FAILED,
 * ACCOUNT_LOCKED
 */
export async function disableTotp(
  call: SessionCall,
  password: string,
  factor: SecondFactor,
): Promise<void> {
  const user = await confirmPassword(call, password);
  if (!user.mfaEnabled) throw mfaNotEnabled();
  const before = () => lockCaller(call);
  const work = async () => {
    if (!(await disableAuthenticator(call, user.id))) throw mfaNotEnabled();
    await assertFactorRemains(call, user.id);
  };
  if (factor.code ?? factor.backupCode) return withSecondFactor(call, user, factor, before, work);
  await call.em.transactional(async () => {
    await before();
    const current = await call.em.findOne(User, { id: user.id }, { refresh: true });
    if (current?.mfaConfirmedAt) throw invalid("code", "is required unless backupCode is given");
    await work();
  });
}

/**
 * Creates a new set of backup codes, which replaces the old one.
 * @throws ServiceError MFA_NOT_ENABLED, INVALID_CURRENT_PASSWORD, INVALID_CODE, ACCOUNT_LOCKED
 */
export async function createBackupCodes(
  call: SessionCall,
  password: string,
  code: string,
): Promise<string[]> {
  const user = await confirmPassword(call, password);
  if (!user.mfaEnabled) throw mfaNotEnabled();
  const before = () => lockCaller(call);
  return withSecondFactor(call, user, { code }, before, async () => {
    await recordAudit(call, "auth.mfa_setup", {
      userId: user.id,
      details: { renewed: "backup-codes" },
    });
    await queueEmail(call, user, "backup-codes-created");
    return createBackupCodeSet(call, user.id);
  });
}

/**
 * Sets whether every sign-in of the caller needs a second factor. Makes backup codes where there
 * are none.
 * @returns the new backup codes, if any
 * @throws ServiceError REAUTHENTICATION_REQUIRED, MFA_NOT_ENABLED
 */
export async function requireSecondFactor(call: SessionCall, required: boolean): Promise<string[]> {
  assertRecentSignIn(call);
  const { user: caller } = call.principal;
  return call.em.transactional(async () => {
    await lockCaller(call);
    const user = await call.em.findOneOrFail(User, { id: caller.id }, { refresh: true });
    if (user.secondFactor === required) return [];
    const { passkeys } = await countWaysIn(call, user.id);
    if (required && !user.mfaConfirmed && passkeys === 0) throw mfaNotEnabled();
    const changes = { secondFactor: required, updatedAt: call.clock.now() };
    await call.em.nativeUpdate(User, { id: user.id }, changes);
    await invalidateOneTimeTokens(call, user.id, ["sign-in"]);
    await recordAudit(call, "user.second_factor_changed", {
      userId: user.id,
      details: { required },
    });
    const state = required ? "required" : "optional";
    await queueEmail(call, user, "second-factor-changed", { state });
    if (!required && !user.mfaEnabled) await replaceBackupCodes(call, user.id, []); // nothing asks for them
    const hasCodes = (await countBackupCodes(call, user.id)) > 0;
    return required && !hasCodes ? createBackupCodeSet(call, user.id) : [];
  });
}

const mfaNotEnabled = () =>
  new ServiceError(Reason.MFA_NOT_ENABLED, "Two-factor authentication is not enabled.");
