import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertOtherAdmin } from "../accounts/last-admin.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";

/**
 * Refuses to take away somebody who is the caller, or the last administrator. The administrators' rows stay locked
 * until the transaction ends, so whatever could take one away happens one after the other; then the caller must still
 * be one of them: of two who demote each other, the second no longer is.
 * @throws ServiceError SELF_TARGETED, LAST_ADMIN, FORBIDDEN
 */
export async function assertRemovableAdmin(call: Pick<Call, "em" | "caller">, id: string, deed: string): Promise<void> {
  const callerId = call.caller?.user.id;
  if (callerId === id) {
    throw new ServiceError(Reason.SELF_TARGETED, `Administrators can't ${deed} themselves. Please ask another one.`);
  }
  await assertOtherAdmin(call, id);
  if (callerId === undefined) return;
  const rows = await call.em.execute<unknown[]>("select 1 from users where id = ? and role = 'admin'", [callerId]);
  if (rows.length === 0) throw new ServiceError(Reason.FORBIDDEN, "This needs the role admin.");
}
