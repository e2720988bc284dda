import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { type SecondFactor, withSecondFactor } from "../mfa/second-factor.ts";
import { ServiceError } from "../platform/errors.ts";
import { type LoginResult, openSession } from "../sessions/open-session.ts";
import { readMfaToken } from "../sessions/tokens.ts";
import { countMfaTokenAttempt, OneTimeToken } from "../store/one-time-tokens.ts";
import { lockUser, User } from "../store/users.ts";

/** Maximum number of codes per MFA token. */
const MAX_CODES = 5;

/**
 * Completes a login with its second factor: MFA token and factor are consumed and the session is opened in one
 * transaction. The code is counted before it is evaluated, for the account and for the MFA token.
 * @throws ServiceError TICKET_INVALID, INVALID_CODE, ACCOUNT_LOCKED, UNAVAILABLE
 */
export async function verifyMfa(call: Call, tempToken: string, factor: SecondFactor): Promise<LoginResult> {
  const token = await readMfaToken(call, tempToken);
  const user = token && (await call.em.findOne(User, { id: token.userId }));
  if (!user) throw invalidMfaToken();
  const before = async () => {
    await lockUser(call, user.id);
    // false: used up, or a concurrent caller was faster; this code does not count as wrong
    if (!(await countMfaTokenAttempt(call, token.id, MAX_CODES))) throw invalidMfaToken();
  };
  return withSecondFactor(call, user, factor, before, async () => {
    await call.em.nativeDelete(OneTimeToken, { id: token.id });
    const result = await openSession(call, user);
    if (!result) throw invalidMfaToken(); // password or second factor have changed since the row was read
    const method = factor.code === undefined ? "backup-code" : "totp";
    await recordAudit(call, "auth.mfa_verified", { userId: user.id, details: { method } });
    return result;
  });
}

const invalidMfaToken = () =>
  new ServiceError(Reason.TICKET_INVALID, "The sign-in has expired or was already completed. Please sign in again.");
