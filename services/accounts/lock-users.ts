import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call, SignedInCall } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { lockOpenSession } from "../store/sessions.ts";
import { lockAdminsAnd, lockUser } from "../store/users.ts";

type Deps = Pick<SignedInCall, "em" | "caller">;

/**
 * Locks the caller's row, and checks that the session has not ended since the call was authenticated.
 * @throws ServiceError UNAUTHENTICATED
 */
export async function lockCaller(call: Deps): Promise<void> {
  await lockUser(call, call.caller.user.id);
  await lockOwnSession(call);
}

/** Checks that the caller's session has not ended since the call was authenticated. @throws ServiceError UNAUTHENTICATED */
export async function lockOwnSession(call: Deps): Promise<void> {
  const { user, session } = call.caller;
  if (await lockOpenSession(call, session.id, user.id)) return;
  throw new ServiceError(Reason.UNAUTHENTICATED, "This session has ended. Please sign in.");
}

/**
 * Checks that another administrator remains, if this user is one. The rows of administrators stay locked until the
 * transaction ends. Administrators whose deletion is requested do not count.
 * @throws ServiceError LAST_ADMIN
 */
export async function assertOtherAdmin(call: Pick<Call, "em">, userId: string): Promise<void> {
  const users = await lockAdminsAnd(call, userId);
  const isAdmin = users.some((user) => user.id === userId && user.isAdmin);
  if (isAdmin && !users.some((user) => user.id !== userId && !user.isLeaving)) {
    throw new ServiceError(Reason.LAST_ADMIN, "This is the last administrator. Please promote another user first.");
  }
}
