import type { AuditDeps } from "../audit/record.ts";
import { eraseUser } from "./erase-user.ts";

/** Accounts that are looked up at once; each is erased in a transaction of its own. */
const BATCH = 20;

/**
 * Erases the accounts whose time of deletion has come. Any number of processes may do it at once.
 * @throws Error of an account that can't be erased now, once the others are
 */
export async function purgeDeletedUsers(createSystemCall: () => AuditDeps): Promise<void> {
  const failures: unknown[] = [];
  for (let erased = BATCH; erased === BATCH; ) {
    erased = 0;
    const { em, clock } = createSystemCall();
    const due = await em.execute<{ id: string }[]>(
      "select id from users where deletion_at <= ? order by deletion_at limit ?",
      [clock.now(), BATCH],
    );
    for (const { id } of due) {
      const isErased = await purgeUser(createSystemCall(), id).catch((error) => void failures.push(error));
      if (isErased) erased++;
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** Unless a sign-in has restored it, or another process is at it. */
function purgeUser(call: AuditDeps, id: string): Promise<boolean> {
  return call.em.transactional(async () => {
    const [due] = await call.em.execute<unknown[]>(
      "select id from users where id = ? and deletion_at <= ? for update skip locked",
      [id, call.clock.now()],
    );
    return due ? eraseUser(call, id) : false;
  });
}
