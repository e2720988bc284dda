import { lockCaller } from "../accounts/lock-user.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { replaceBackupCodes } from "../mfa/backup-codes.ts";
import { withSecondFactor } from "../mfa/second-factor.ts";
import { confirmPassword } from "./confirm-password.ts";
import { mfaNotEnabled } from "./disable-totp.ts";

/**
 * Makes a new set of backup codes, the old one void.
 * @throws ServiceError MFA_NOT_ENABLED, INVALID_CURRENT_PASSWORD, INVALID_CODE, ACCOUNT_LOCKED
 */
export async function createBackupCodes(call: SignedInCall, password: string, code: string): Promise<string[]> {
  const user = await confirmPassword(call, password);
  if (!user.mfaEnabled) throw mfaNotEnabled();
  return withSecondFactor(call, user, { code }, undefined, {
    before: () => lockCaller(call),
    work: async () => {
      await recordAudit(call, "auth.mfa_setup", { userId: user.id, details: { renewed: "backup-codes" } });
      return replaceBackupCodes(call, user.id);
    },
  });
}
