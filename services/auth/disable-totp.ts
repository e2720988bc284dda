import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockCaller } from "../accounts/lock-caller.ts";
import type { SignedInCall } from "../call.ts";
import { disableMfa } from "../mfa/disable-mfa.ts";
import { type SecondFactor, withSecondFactor } from "../mfa/second-factor.ts";
import { invalid, ServiceError } from "../platform/errors.ts";
import { User } from "../store/users.ts";
import { confirmPassword } from "./confirm-password.ts";

/**
 * Disables the second factor. A code or backup code is required once a first code has been accepted.
 * @throws ServiceError MFA_NOT_ENABLED, INVALID_CURRENT_PASSWORD, INVALID_CODE, VALIDATION_FAILED, ACCOUNT_LOCKED
 */
export async function disableTotp(call: SignedInCall, password: string, factor?: SecondFactor): Promise<void> {
  const user = await confirmPassword(call, password);
  if (!user.mfaEnabled) throw mfaNotEnabled();
  const before = () => lockCaller(call);
  const work = async () => {
    if (!(await disableMfa(call, user.id, { audit: true, notify: true }))) throw mfaNotEnabled();
  };
  if (factor) return withSecondFactor(call, user, factor, { before, work });
  await call.em.transactional(async () => {
    await before();
    const current = await call.em.findOne(User, { id: user.id }, { refresh: true });
    if (current?.mfaConfirmedAt) throw invalid("code", "must be given, or backupCode");
    await work();
  });
}

/** The error for users without a second factor. */
export function mfaNotEnabled(): ServiceError {
  return new ServiceError(Reason.MFA_NOT_ENABLED, "Two-factor sign-in is not on.");
}
