import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import type { Role } from "../store/user.ts";

/**
 * Locks the administrators' rows and the user's, and makes sure that one stays who is not about to go if the user, who
 * may have become one meanwhile, is one of them.
 * @throws ServiceError LAST_ADMIN
 */
export async function assertOtherAdmin(call: Pick<Call, "em">, userId: string): Promise<void> {
  const rows = await call.em.execute<{ id: string; role: Role; deletion_at: string | null }[]>(
    "select id, role, deletion_at from users where role = 'admin' or id = ? order by id for no key update",
    [userId],
  );
  const isAdmin = rows.some(({ id, role }) => id === userId && role === "admin");
  if (isAdmin && !rows.some(({ id, deletion_at }) => id !== userId && deletion_at === null)) {
    throw new ServiceError(Reason.LAST_ADMIN, "This is the last administrator. Please promote another user first.");
  }
}
