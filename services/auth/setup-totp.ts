import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockCaller } from "../accounts/lock-user.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { queueEmail } from "../mail/queue.ts";
import { replaceBackupCodes } from "../mfa/backup-codes.ts";
import { createTotpSecret } from "../mfa/totp.ts";
import { ServiceError } from "../platform/errors.ts";

/** What an authenticator needs; told once, kept only encrypted or as digests. */
export type TotpSetup = { secret: string; qrCode: string; backupCodes: string[] };

/**
 * Makes a TOTP secret and backup codes, asked for from the next login on. Until a first code has been accepted, doing
 * it again replaces both.
 * @throws ServiceError MFA_ALREADY_ENABLED
 */
export async function setupTotp(call: SignedInCall): Promise<TotpSetup> {
  const { user } = call.caller;
  const { secret, qrCode, encryptedSecret } = await createTotpSecret(call.cipher, call.config.appName, user);
  const backupCodes = await call.em.transactional(async () => {
    await lockCaller(call);
    const changed = await call.em.execute<unknown[]>(
      `update users set mfa_secret = ?, updated_at = ?
       where id = ? and mfa_confirmed_at is null returning id`,
      [encryptedSecret, call.clock.now(), user.id],
    );
    if (changed.length === 0) {
      throw new ServiceError(Reason.MFA_ALREADY_ENABLED, "Two-factor sign-in is on already. Turn it off first.");
    }
    await recordAudit(call, "auth.mfa_setup", { userId: user.id });
    await queueEmail(call, {
      userId: user.id,
      to: user.email,
      template: "mfa-enabled",
      variables: { name: user.name },
    });
    return replaceBackupCodes(call, user.id);
  });
  return { secret, qrCode, backupCodes };
}
