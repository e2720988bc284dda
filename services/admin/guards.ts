import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertOtherAdmin } from "../accounts/last-admin.ts";
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
