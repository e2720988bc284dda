import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { Refusal } from "../refusal.ts";

/**
 * Locks every administrator's row until the transaction ends, so that whatever could take one away happens one after
 * the other. Then the caller must still be one of them: of two who demote each other, the second no longer is.
 * @returns the administrators' ids
 * @throws Refusal FORBIDDEN
 */
export async function lockAdmins(call: Pick<Call, "em" | "caller">): Promise<Set<string>> {
  const rows = await call.em.execute<{ id: string }[]>(
    "select id from users where role = 'admin' order by id for no key update",
  );
  const admins = new Set(rows.map(({ id }) => id));
  if (call.caller && !admins.has(call.caller.user.id))
    throw new Refusal(Reason.FORBIDDEN, "This needs the role admin.");
  return admins;
}

/** Refuses to take an administrator away who is the caller, or the last. @throws Refusal SELF_TARGETED, LAST_ADMIN */
export function requireRemovable(call: Pick<Call, "caller">, admins: Set<string>, id: string, deed: string): void {
  if (call.caller?.user.id === id) {
    throw new Refusal(Reason.SELF_TARGETED, `Administrators can't ${deed} themselves. Please ask another one.`);
  }
  if (admins.has(id) && admins.size === 1) {
    throw new Refusal(Reason.LAST_ADMIN, `This is the last administrator. Please promote another user first.`);
  }
}
