import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertOtherAdmin } from "../accounts/lock-users.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { User } from "../store/users.ts";

/**
 * Checks that an administrator may be deleted or demoted: not the caller and not the last one. The administrators' rows
 * stay locked until the transaction ends, so such changes happen one after the other. Then the caller must still be an
 * administrator: of two who demote each other, only the first succeeds.
 * @throws ServiceError SELF_TARGETED, LAST_ADMIN, FORBIDDEN
 */
export async function assertRemovableAdmin(
  call: Pick<Call, "em" | "caller">,
  id: string,
  action: "delete" | "demote",
): Promise<void> {
  const callerId = call.caller?.user.id;
  if (callerId === id) {
    const message = `Administrators can't ${action} themselves. Please ask another one.`;
    throw new ServiceError(Reason.SELF_TARGETED, message);
  }
  await assertOtherAdmin(call, id);
  if (callerId === undefined) return;
  const isAdmin = (await call.em.count(User, { id: callerId, role: "admin" })) > 0;
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
