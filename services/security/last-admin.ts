import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { Refusal } from "../refusal.ts";

/** Locks the administrators' rows and makes sure that one stays who is not about to go. @throws Refusal LAST_ADMIN */
export async function requireOtherAdmin(call: Pick<Call, "em">, userId: string): Promise<void> {
  const admins = await call.em.execute<{ id: string; deletion_at: string | null }[]>(
    "select id, deletion_at from users where role = 'admin' order by id for no key update",
  );
  if (!admins.some(({ id, deletion_at }) => id !== userId && deletion_at === null)) {
    throw new Refusal(Reason.LAST_ADMIN, "This is the last administrator. Please promote another user first.");
  }
}
