import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockCaller } from "../accounts/lock-user.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call, SignedInCall } from "../call.ts";
import { queueEmail } from "../mail/queue.ts";
import { removeSecondFactor } from "../mfa/disable-mfa.ts";
import { type SecondFactor, withSecondFactor } from "../mfa/second-factor.ts";
import { invalid, Refusal } from "../platform/errors.ts";
import type { User } from "../store/user.ts";
import { confirmPassword } from "./confirm-password.ts";

/**
 * Takes the second factor off. A factor is needed once a code was ever accepted.
 * @throws Refusal MFA_NOT_ENABLED, INVALID_CURRENT_PASSWORD, INVALID_CODE, VALIDATION_FAILED, ACCOUNT_LOCKED
 */
export async function disableTotp(call: SignedInCall, password: string, factor?: SecondFactor): Promise<void> {
  const user = await confirmPassword(call, password);
  if (!user.mfaEnabled) throw mfaNotEnabled();
  const before = () => lockCaller(call);
  const work = () => remove(call, user);
  if (factor) return withSecondFactor(call, user, factor, undefined, { before, work });
  await call.em.transactional(async () => {
    await before();
    const [row] = await call.em.execute<{ confirmed: boolean }[]>(
      "select mfa_confirmed_at is not null as confirmed from users where id = ?",
      [user.id],
    );
    if (row?.confirmed) throw invalid("code", "must be given, or backupCode");
    await work();
  });
}

async function remove(call: SignedInCall, user: User): Promise<void> {
  if (!(await takeSecondFactorOff(call, user))) throw mfaNotEnabled();
}

/** Takes the second factor off, on record, and tells by mail; joins the transaction. @returns whether there was one */
export async function takeSecondFactorOff(
  call: Call,
  { id: userId, email, name }: Pick<User, "id" | "email" | "name">,
): Promise<boolean> {
  if (!(await removeSecondFactor(call, userId))) return false;
  await recordAudit(call, "auth.mfa_disabled", { userId });
  await queueEmail(call, { userId, to: email, template: "mfa-disabled", facts: { name } });
  return true;
}

/** The answer to those who have no second factor. */
export function mfaNotEnabled(): Refusal {
  return new Refusal(Reason.MFA_NOT_ENABLED, "Two-factor sign-in is not on.");
}
