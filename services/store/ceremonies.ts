import { type Db, returnsRow } from "./statement.ts";

/**
 * Completes a ceremony, in the transaction of its effect.
 * @returns false if it was completed before: only one of several callers succeeds
 */
export const completeCeremony = (
  db: Db,
  { id, expiresAt }: { id: string; expiresAt: Date },
): Promise<boolean> =>
  returnsRow(
    db,
    "insert into completed_ceremonies (id, expires_at) values (:id, :expiresAt) on conflict do nothing returning id",
    { id, expiresAt },
  );
