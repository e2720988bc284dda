import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { issueOneTimeToken } from "../crypto/one-time-tokens.ts";
import { ServiceError } from "../platform/errors.ts";
import { createMfaToken, readMfaToken } from "../sessions/tokens.ts";

/** A MFA token dies with this many wrong codes. */
const MAX_FAILURES = 5;

/** Issues the MFA token of a login that waits for its second factor; an older one is void. Joins the transaction. */
export async function issueMfaToken(
  call: Pick<Call, "em" | "clock" | "config" | "keys">,
  user: { id: string; email: string },
): Promise<string> {
  const createdAt = call.clock.now();
  const lifetimeMs = call.config.mfaTokenMs;
  const id = await issueOneTimeToken(call, { kind: "sign-in", userId: user.id, email: user.email, lifetimeMs });
  const expiresAt = new Date(createdAt.getTime() + lifetimeMs);
  return createMfaToken(call, { id, userId: user.id, createdAt, expiresAt });
}

/** Looks whose MFA token it is, and counts a guess before the code is looked at. @throws ServiceError TICKET_INVALID */
export async function presentMfaToken(call: Call, text: string): Promise<{ id: string; userId: string }> {
  const mfaToken = await readMfaToken(call, text);
  const [row] = mfaToken
    ? await call.em.execute<unknown[]>(
        "update one_time_tokens set failed = failed + 1 where id = ? and failed < ? returning id",
        [mfaToken.id, MAX_FAILURES],
      )
    : [];
  if (!mfaToken || !row) throw invalidMfaToken();
  return mfaToken;
}

/** Makes sure that the MFA token is still there, in the transaction that uses it up. @throws ServiceError TICKET_INVALID */
export async function lockMfaToken(call: Pick<Call, "em">, id: string): Promise<void> {
  const [row] = await call.em.execute<unknown[]>("select id from one_time_tokens where id = ? for update", [id]);
  if (!row) throw invalidMfaToken();
}

/** Uses a held MFA token up. */
export async function consumeMfaToken(call: Pick<Call, "em">, id: string): Promise<void> {
  await call.em.execute("delete from one_time_tokens where id = ?", [id]);
}

/** The answer to an MFA token that is not one. */
export function invalidMfaToken(): ServiceError {
  return new ServiceError(
    Reason.TICKET_INVALID,
    "The sign-in has expired or was already completed. Please sign in again.",
  );
}
