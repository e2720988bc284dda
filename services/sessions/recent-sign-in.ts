import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { SignedInCall } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";

/** For how long after signing in the password is not required again, in ms. */
export const RECENT_SIGN_IN_MS = 15 * 60_000;

/** Whether the caller signed in within a time. A refresh does not count: a session keeps the time of its sign-in. */
export function isRecentSignIn(
  { caller, clock }: Pick<SignedInCall, "caller" | "clock">,
  withinMs = RECENT_SIGN_IN_MS,
): boolean {
  return clock.now().getTime() - caller.session.createdAt.getTime() <= withinMs;
}

/** The error for a session that is too old for an operation. @param remedy what the user can do */
export function reauthenticationRequired(remedy: string): ServiceError {
  return new ServiceError(Reason.REAUTHENTICATION_REQUIRED, `This needs a recent sign-in. ${remedy}`);
}
