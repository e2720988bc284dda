import { lockUser } from "../accounts/lock-user.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { consumeMfaToken, invalidMfaToken, lockMfaToken, presentMfaToken } from "../mfa/mfa-token.ts";
import { type SecondFactor, withSecondFactor } from "../mfa/second-factor.ts";
import { type LoginResult, openSession } from "../sessions/open-session.ts";
import { User } from "../store/user.ts";

/**
 * Completes a login with its second factor: MFA token and factor are used up and the session opened in one transaction.
 * @throws ServiceError TICKET_INVALID, INVALID_CODE
 */
export async function verifyMfa(call: Call, tempToken: string, factor: SecondFactor): Promise<LoginResult> {
  const mfaToken = await presentMfaToken(call, tempToken);
  const user = await call.em.findOne(User, { id: mfaToken.userId });
  if (!user) throw invalidMfaToken();
  return withSecondFactor(call, user, factor, call.attempt, {
    before: async () => {
      await lockUser(call, user.id);
      await lockMfaToken(call, mfaToken.id); // a parallel caller who was faster has not made this one's code a wrong one
    },
    work: async () => {
      await consumeMfaToken(call, mfaToken.id);
      const signedIn = await openSession(call, user, null);
      if (!signedIn) throw invalidMfaToken(); // password or second factor have just been changed
      const method = "code" in factor ? "totp" : "backup-code";
      await recordAudit(call, "auth.mfa_verified", { userId: user.id, details: { method } });
      return signedIn;
    },
  });
}
