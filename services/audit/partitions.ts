import { addPartition, dropTables, limitLockTime, partitionsBefore, sealedBound } from "../store/audit-partitions.ts";
import type { Db } from "../store/store.ts";
import { beginSeal, sealDrop } from "./seal.ts";

/** Months that have a partition in advance. */
const MONTHS_AHEAD = 3;

/**
 * Adds the partitions of this month and the next ones. Events of a month without one go to the default partition.
 * @throws Error if the table stays locked, see `isLockTimeout`
 */
export async function addPartitions(db: Db, now: Date): Promise<void> {
  for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead++) await addPartition(db, monthOf(now, ahead));
}

/**
 * Drops the partitions whose every event is older than a time's month, once all these events are sealed, and records
 * that in the chain.
 * @throws Error if the table stays locked, see `isLockTimeout`
 * @returns the names of the dropped partitions
 */
export async function dropPartitions(db: Db, now: Date, olderThan: Date): Promise<string[]> {
  const month = monthOf(olderThan, 0);
  if ((await partitionsBefore(db, month)).length === 0) return [];
  return db.em.transactional(async () => {
    await limitLockTime(db);
    const last = await beginSeal(db);
    const droppedBelow = await sealedBound(db, month);
    if (!last || !droppedBelow) return [];
    const names = await partitionsBefore(db, month);
    await dropTables(db, names);
    await sealDrop(db, now, last, droppedBelow);
    return names;
  });
}

/** The first day of the month that is so many months after a time's. */
function monthOf(time: Date, later: number): string {
  return new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + later)).toISOString().slice(0, 10);
}
