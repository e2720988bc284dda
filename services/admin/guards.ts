import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertOtherAdmin } from "../accounts/lock-users.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { isRecentSignIn, reauthenticationRequired } from "../sessions/check-session.ts";
import { type AdminUser, findAdminUser } from "../store/admin-users.ts";
import { User } from "../store/users.ts";

/**
 * Checks that an administrator may be deleted or demoted: not the caller and not the last one. The administrators' rows
 * stay locked until the transaction ends, so such changes happen one after the other.
 * @throws ServiceError SELF_TARGETED, LAST_ADMIN
 */
export async function assertRemovableAdmin(
  call: Pick<Call, "em" | "caller">,
  id: string,
  action: "delete" | "demote",
): Promise<void> {
  if (call.caller?.user.id === id) {
    const message = `Administrators can't ${action} themselves. Please ask another one.`;
    throw new ServiceError(Reason.SELF_TARGETED, message);
  }
  await assertOtherAdmin(call, id);
}

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

/**
 * Checks that an administrator may change a user's e-mail address, verification or second factor. A stolen access token
 * must not be enough to take over an administrator's account for good: their own routes ask for the password.
 * @throws ServiceError SELF_TARGETED, CONFLICT for another administrator
 */
export function assertEditableAccess({ caller }: Pick<Call, "caller">, user: User): void {
  if (caller === undefined || user.role !== "admin") return; // no caller: the command line
  if (caller.user.id === user.id) {
    const message = "Administrators can't change their own address, verification or second factor here.";
    throw new ServiceError(Reason.SELF_TARGETED, `${message} Please use the settings of your account.`);
  }
  const message = "The address, verification and second factor of another administrator can't be changed.";
  throw new ServiceError(Reason.CONFLICT, `${message} Please demote the administrator first.`);
}

/** Reads one user. @throws ServiceError NOT_FOUND */
export async function readAdminUser(call: Pick<Call, "em">, id: string): Promise<AdminUser> {
  const user = await findAdminUser(call, id);
  if (!user) throw userNotFound();
  return user;
}

export function userNotFound(): ServiceError {
  return new ServiceError(Reason.NOT_FOUND, "There is no such user.");
}
