import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockCaller } from "../accounts/lock-caller.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { queueEmail } from "../mail/queue.ts";
import { createBackupCodeSet } from "../mfa/backup-code.ts";
import { createTotpSecret } from "../mfa/totp.ts";
import { ServiceError } from "../platform/errors.ts";
import { User } from "../store/users.ts";

/** What an authenticator needs. Returned once, stored encrypted or as digests. */
export type TotpSetup = { secret: string; qrCode: string; backupCodes: string[] };

/**
 * Creates a TOTP secret and backup codes, which are required from the next login on. Until a first code has been
 * accepted, another call replaces both.
 * @throws ServiceError MFA_ALREADY_ENABLED
 */
export async function setupTotp(call: SignedInCall): Promise<TotpSetup> {
  const { user } = call.caller;
  const { secret, qrCode, encryptedSecret } = await createTotpSecret(call.cipher, call.config.appName, user);
  const backupCodes = await call.em.transactional(async () => {
    await lockCaller(call);
    const changes = { mfaSecret: encryptedSecret, updatedAt: call.clock.now() };
    if ((await call.em.nativeUpdate(User, { id: user.id, mfaConfirmedAt: null }, changes)) === 0) {
      throw new ServiceError(Reason.MFA_ALREADY_ENABLED, "Two-factor sign-in is on already. Turn it off first.");
    }
    await recordAudit(call, "auth.mfa_setup", { userId: user.id });
    await queueEmail(call, {
      userId: user.id,
      to: user.email,
      template: "mfa-enabled",
      variables: { name: user.name },
    });
    return createBackupCodeSet(call, user.id);
  });
  return { secret, qrCode, backupCodes };
}
