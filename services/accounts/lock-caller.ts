import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { SignedInCall } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { lockOpenSession } from "../store/sessions.ts";
import { lockUser } from "../store/users.ts";

type Deps = Pick<SignedInCall, "em" | "caller">;

/**
 * Locks the caller's row, and makes sure that their session has not ended since the call was authenticated.
 * @throws ServiceError UNAUTHENTICATED
 */
export async function lockCaller(call: Deps): Promise<void> {
  await lockUser(call, call.caller.user.id);
  await lockOwnSession(call);
}

/** Makes sure that the caller's session has not ended since the call was authenticated. @throws ServiceError UNAUTHENTICATED */
export async function lockOwnSession(call: Deps): Promise<void> {
  const { user, session } = call.caller;
  if (await lockOpenSession(call, session.id, user.id)) return;
  throw new ServiceError(Reason.UNAUTHENTICATED, "This session has ended. Please sign in.");
}
