import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { issueOneTimeToken } from "../crypto/one-time-token.ts";
import { ServiceError } from "../platform/errors.ts";
import { createMfaToken } from "../sessions/tokens.ts";

/** Issues the MFA token of a login that waits for its second factor; it replaces an older one. Joins the transaction. */
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

/** The error for an invalid, expired or used MFA token. */
export function invalidMfaToken(): ServiceError {
  const message = "The sign-in has expired or was already completed. Please sign in again.";
  return new ServiceError(Reason.TICKET_INVALID, message);
}
