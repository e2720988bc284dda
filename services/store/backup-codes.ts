import type { Db } from "./store.ts";

/** Replaces all backup codes of a user. Lock the user first. */
export async function replaceBackupCodes({ em }: Db, userId: string, digests: string[]): Promise<void> {
  await em.execute("delete from backup_codes where user_id = ?", [userId]);
  await em.execute("insert into backup_codes (user_id, digest) select ?, jsonb_array_elements_text(?::jsonb)", [
    userId,
    JSON.stringify(digests),
  ]);
}

/** Deletes one backup code. Of several callers one gets it. @returns how many are left; undefined if there is no such code. */
export async function takeBackupCode({ em }: Db, userId: string, digest: string): Promise<number | undefined> {
  const taken = await em.execute<unknown[]>(
    "delete from backup_codes where user_id = ? and digest = ? returning user_id",
    [userId, digest],
  );
  if (taken.length === 0) return undefined;
  const [row] = await em.execute<{ left: number }[]>(
    "select count(*)::int as left from backup_codes where user_id = ?",
    [userId],
  );
  return row?.left ?? 0;
}
