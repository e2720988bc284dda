import type { Call } from "../call.ts";
import { voidOneTimeTokens } from "../crypto/one-time-tokens.ts";
import { removeBackupCodes } from "./backup-codes.ts";

/** Takes the second factor off; joins the transaction it is called in. @returns whether there was one. */
export async function removeSecondFactor(call: Pick<Call, "em" | "clock">, userId: string): Promise<boolean> {
  const removed = await call.em.execute<unknown[]>(
    `update users set mfa_secret = null, mfa_confirmed_at = null, mfa_last_step = null, updated_at = ?
     where id = ? and mfa_secret is not null returning id`,
    [call.clock.now(), userId],
  );
  await removeBackupCodes(call, userId);
  await voidOneTimeTokens(call, userId, ["sign-in"]);
  return removed.length > 0;
}
