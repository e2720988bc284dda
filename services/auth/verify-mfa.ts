import { LockMode } from "@mikro-orm/core";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { reserveAttempt } from "../lockout/reserve-attempt.ts";
import { invalidMfaToken } from "../mfa/mfa-token.ts";
import { evaluateSecondFactor, type SecondFactor } from "../mfa/second-factor.ts";
import { type LoginResult, openSession } from "../sessions/open-session.ts";
import { readMfaToken } from "../sessions/tokens.ts";
import { countMfaTokenAttempt, OneTimeToken } from "../store/one-time-tokens.ts";
import { lockUser, User } from "../store/users.ts";

/** Codes that may be presented with one MFA token. */
const MAX_CODES = 5;

/**
 * Completes a login with its second factor: MFA token and factor are consumed and the session is opened in one
 * transaction. The code is counted before it is evaluated, for the account and for the MFA token.
 * @throws ServiceError TICKET_INVALID, INVALID_CODE, ACCOUNT_LOCKED, UNAVAILABLE
 */
export async function verifyMfa(call: Call, tempToken: string, factor: SecondFactor): Promise<LoginResult> {
  const token = await readMfaToken(call, tempToken);
  if (!token) throw invalidMfaToken();
  const attempt = await reserveAttempt(call, { kind: "second-factor", subject: token.userId });
  try {
    if (!(await countMfaTokenAttempt(call, token.id, MAX_CODES))) throw invalidMfaToken();
    const user = await call.em.findOne(User, { id: token.userId });
    if (!user) throw invalidMfaToken();
    return await evaluateSecondFactor(call, attempt, user, factor, {
      async before() {
        await lockUser(call, user.id);
        const lockMode = LockMode.PESSIMISTIC_WRITE;
        const unused = await call.em.findOne(OneTimeToken, { id: token.id }, { lockMode });
        if (!unused) throw invalidMfaToken(); // a parallel caller was faster: this code is not a wrong one
      },
      async work() {
        await call.em.nativeDelete(OneTimeToken, { id: token.id });
        const result = await openSession(call, user);
        if (!result) throw invalidMfaToken(); // password or second factor have changed since the row was read
        const method = "code" in factor ? "totp" : "backup-code";
        await recordAudit(call, "auth.mfa_verified", { userId: user.id, details: { method } });
        return result;
      },
    });
  } finally {
    await attempt.release();
  }
}
