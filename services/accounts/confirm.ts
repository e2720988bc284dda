import type { ConfirmRequest } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { needsSecondFactor, withSecondFactor } from "../mfa/second-factor.ts";
import { invalid, ServiceError } from "../platform/rpc/errors.ts";
import { confirmSession } from "../store/sessions.ts";
import type { User } from "../store/users.ts";
import { confirmPassword, lockCaller, RECENT_SIGN_IN_MS, wrongPassword } from "./guards.ts";

/** What confirms a session: a password and, where the account has one, a second factor. */
type Proof = Pick<ConfirmRequest, "password" | "code" | "backupCode">;

/**
 * Confirms the caller's session, which counts as if it had just begun. The remedy for
 * REAUTHENTICATION_REQUIRED beside a new sign-in.
 * @returns when the confirmation ends
 * @throws ServiceError INVALID_CURRENT_PASSWORD, INVALID_CODE, MFA_NOT_ENABLED, VALIDATION_FAILED,
 * ACCOUNT_LOCKED, UNAUTHENTICATED, UNAVAILABLE
 */
export async function confirm(call: SessionCall, proof: Proof): Promise<Date> {
  const { user: caller } = call.principal;
  if (!caller.hasPassword) throw wrongPassword(); // it counts as no guess: nothing can be right
  assertFactorIsGiven(caller, proof);
  const user = await confirmPassword(call, proof.password ?? "");
  if (needsSecondFactor(user))
    await withSecondFactor(
      call,
      user,
      proof,
      () => lockCaller(call),
      () => recordConfirmation(call, "password"),
    );
  else
    await call.em.transactional(async () => {
      await lockCaller(call);
      await recordConfirmation(call, "password");
    });
  return new Date(call.clock.now().getTime() + RECENT_SIGN_IN_MS);
}

/** Checks that a request has a second factor if the account has one, and none otherwise. */
function assertFactorIsGiven(
  user: Pick<User, "mfaEnabled" | "secondFactor">,
  { code, backupCode }: Proof,
): void {
  const isGiven = code !== undefined || backupCode !== undefined;
  if (isGiven === needsSecondFactor(user)) return;
  if (!isGiven) throw invalid("code", "is required, or backupCode");
  throw new ServiceError(Reason.MFA_NOT_ENABLED, "Two-factor sign-in is not enabled.");
}

/** Notes the confirmation of the caller's session, which is locked. */
async function recordConfirmation(call: SessionCall, method: "password"): Promise<void> {
  const { user, session } = call.principal;
  await confirmSession(call, session.id);
  await recordAudit(call, "auth.confirmed", { userId: user.id, details: { method } });
}
