import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { isRecentSignIn, reauthenticationRequired } from "../sessions/check-session.ts";
import { type AdminUser, findAdminUser } from "../store/admin-users.ts";
import { User } from "../store/users.ts";

/**
 * Checks that the administrator signed in recently. A stolen access token or session must not be enough to take over an
 * account.
 * @throws ServiceError REAUTHENTICATION_REQUIRED
 */
export function assertRecentAdminSignIn({ caller, clock, config }: Pick<Call, "caller" | "clock" | "config">): void {
  if (caller === undefined || config.adminReauthMs === 0) return; // no caller: the command line
  if (!isRecentSignIn({ caller, clock }, config.adminReauthMs)) throw reauthenticationRequired("Please sign in again.");
}

/**
 * Checks in the transaction of a change that the caller has not been demoted since the call was authorized: of two
 * administrators who demote each other, only the first succeeds. Lock first what the change locks.
 * @throws ServiceError FORBIDDEN
 */
export async function assertStillAdmin({ em, caller }: Pick<Call, "em" | "caller">): Promise<void> {
  if (caller === undefined) return; // the command line
  const isAdmin = (await em.count(User, { id: caller.user.id, role: "admin" })) > 0;
  if (!isAdmin) throw new ServiceError(Reason.FORBIDDEN, "This needs the role admin.");
}

/** Reads one user. @throws ServiceError NOT_FOUND */
export async function readAdminUser(call: Pick<Call, "em">, id: string): Promise<AdminUser> {
  const user = await findAdminUser(call, id);
  if (!user) throw userNotFound();
  return user;
}

export const userNotFound = () => new ServiceError(Reason.NOT_FOUND, "There is no such user.");
