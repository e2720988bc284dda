import { lockCaller } from "../accounts/lock-caller.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { createBackupCodeSet } from "../mfa/backup-code.ts";
import { withSecondFactor } from "../mfa/second-factor.ts";
import { confirmPassword } from "./confirm-password.ts";
import { mfaNotEnabled } from "./disable-totp.ts";

/**
 * Creates a new set of backup codes, which replaces the old one.
 * @throws ServiceError MFA_NOT_ENABLED, INVALID_CURRENT_PASSWORD, INVALID_CODE, ACCOUNT_LOCKED
 */
export async function createBackupCodes(call: SignedInCall, password: string, code: string): Promise<string[]> {
  const user = await confirmPassword(call, password);
  if (!user.mfaEnabled) throw mfaNotEnabled();
  return withSecondFactor(
    call,
    user,
    { code },
    {
      before: () => lockCaller(call),
      work: async () => {
        await recordAudit(call, "auth.mfa_setup", { userId: user.id, details: { renewed: "backup-codes" } });
        return createBackupCodeSet(call, user.id);
      },
    },
  );
}
