import { clearLock, deleteAttempts } from "../store/attempts.ts";
import type { ClockedDb, Db } from "../store/store.ts";
import type { User } from "../store/users.ts";

type Owner = Pick<User, "id" | "canonicalEmail">;

/**
 * Forgets the failed passwords and codes of an account. Its next login is not limited by earlier ones.
 * @param by A mailed reset leaves codes that are locked for good: only a backup code or an operator opens those.
 */
export async function clearLocks(
  call: ClockedDb,
  { id, canonicalEmail }: Owner,
  by: "operator" | "reset",
): Promise<void> {
  const now = call.clock.now();
  await clearLock(call, { kind: "password", subject: canonicalEmail }, now, true);
  await clearLock(call, { kind: "confirmation", subject: id }, now, true);
  await clearLock(call, { kind: "second-factor", subject: id }, now, by === "operator");
  await clearLock(call, { kind: "backup-code", subject: id }, now, by === "operator");
}

/** Deletes what was counted for an account that is erased. */
export async function deleteLocks(call: Db, { id, canonicalEmail }: Owner): Promise<void> {
  await deleteAttempts(call, { kind: "password", subject: canonicalEmail });
  for (const kind of ["confirmation", "second-factor", "backup-code"] as const) {
    await deleteAttempts(call, { kind, subject: id });
  }
}
