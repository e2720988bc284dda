import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { lockAdminsAnd } from "../store/users.ts";

/**
 * Makes sure that an administrator other than this user stays, if the user is one. Their rows stay locked until the
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
