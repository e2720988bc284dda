import { clearLock } from "../store/attempts.ts";
import type { ClockedDb } from "../store/store.ts";
import type { User } from "../store/users.ts";

/**
 * Forgets the failed passwords and codes of an account. Its next login is not limited by earlier ones.
 * @param by A mailed reset leaves codes that are locked for good: only a backup code or an operator opens those.
 */
export async function clearLocks(
  call: ClockedDb,
  { id, canonicalEmail }: Pick<User, "id" | "canonicalEmail">,
  by: "operator" | "reset",
): Promise<void> {
  const now = call.clock.now();
  const all = by === "operator";
  await clearLock(call, { kind: "password", subject: canonicalEmail }, now, true);
  await clearLock(call, { kind: "confirmation", subject: id }, now, true);
  await clearLock(call, { kind: "second-factor", subject: id }, now, all);
  await clearLock(call, { kind: "backup-code", subject: id }, now, all);
}
