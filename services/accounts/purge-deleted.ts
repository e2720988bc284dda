import { LockMode } from "@mikro-orm/core";
import type { AuditDeps } from "../audit/record.ts";
import { User } from "../store/users.ts";
import { eraseUser } from "./erase-user.ts";

/** Accounts that are looked up at once; each is erased in a transaction of its own. */
const BATCH_SIZE = 20;

/**
 * Erases the accounts whose deletion is due. Any number of processes may run it at once.
 * @throws the first error of an account that could not be erased, after the others were
 */
export async function purgeDeletedUsers(createSystemCall: () => AuditDeps): Promise<void> {
  const failures: unknown[] = [];
  for (let erased = BATCH_SIZE; erased === BATCH_SIZE; ) {
    erased = 0;
    const { em, clock } = createSystemCall();
    const isDue = { deletionAt: { $lte: clock.now() } };
    const due = await em.find(User, isDue, { fields: ["id"], orderBy: { deletionAt: "asc" }, limit: BATCH_SIZE });
    for (const { id } of due) {
      const isErased = await purgeUser(createSystemCall(), id).catch((error) => void failures.push(error));
      if (isErased) erased++;
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** Erases a user, unless a sign-in has cancelled the deletion or another process is erasing it. */
function purgeUser(call: AuditDeps, id: string): Promise<boolean> {
  return call.em.transactional(async () => {
    const lockMode = LockMode.PESSIMISTIC_PARTIAL_WRITE; // skips a locked row
    const due = await call.em.findOne(User, { id, deletionAt: { $lte: call.clock.now() } }, { lockMode });
    return due ? eraseUser(call, id) : false;
  });
}
