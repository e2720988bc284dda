import type { Logger } from "pino";
import type { Config } from "../platform/config/config.ts";
import type { AgreedTime } from "../platform/process/agreed-time.ts";
import { every } from "../platform/process/background.ts";
import type { Clock } from "../platform/process/clock.ts";
import {
  addPartition,
  droppablePartitions,
  dropTables,
  limitLockTime,
  ownsPartitions,
} from "../store/audit-events.ts";
import { type Head, hasHead, headOf, needsSeal } from "../store/audit-seals.ts";
import type { Db } from "../store/statement.ts";
import type { Store } from "../store/store.ts";
import { appendSeal, beginSeal, isAuthentic, type SealDeps, sealEvents } from "./seal.ts";

/** How often new events are sealed, in ms. */
const SEAL_INTERVAL_MS = 1_000;
/**
 * How often a new head is logged, in ms. An attacker who can edit the tables cannot alter heads
 * that were already logged.
 */
const PUBLISH_INTERVAL_MS = 60_000;
/** How often partitions are added and dropped, in ms. */
const PARTITION_INTERVAL_MS = 3_600_000;

type Deps = {
  store: Store;
  clock: Clock;
  config: Pick<Config, "auditRetentionMs">;
  agreedTime: Pick<AgreedTime, "compare" | "read">;
  log: Logger;
  /** Called for each sealed event, with its name. */
  countEvent: (event: string) => void;
  /** Called after events were sealed. */
  onSealed: () => void;
} & Omit<SealDeps, "em">;

/**
 * Seals the audit log, logs its head, and adds and drops partitions. `close` seals one more batch
 * and logs the head.
 */
export function startAuditWorker(deps: Deps): { close(): Promise<void> } {
  const { store, cipher, clock, agreedTime, config, log, countEvent, onSealed } = deps;
  const db = (): SealDeps => ({ em: store.fork(), cipher });
  let published: Head | undefined;
  /** Seals a batch. Returns whether there may be more. */
  const sealBatch = async (): Promise<boolean> => {
    if (!(await needsSeal(db()))) return false;
    const { earlier: now } = await agreedTime.compare(); // with a clock ahead, every event would be late
    const sealed = await sealEvents(db(), now);
    if (sealed && sealed.late.length > 0) logLate(log, sealed);
    for (const name of sealed?.names ?? []) countEvent(name);
    if (sealed) onSealed();
    return sealed?.more ?? false;
  };
  const seal = async (signal: AbortSignal): Promise<void> => {
    while ((await sealBatch()) && !signal.aborted);
  };
  const publishHead = async () => {
    if (published && !(await hasHead(db(), published))) {
      log.error(published, "the audit chain was rewritten: it no longer contains this head");
    }
    const head = await headOf(db());
    if (!head || head.position === published?.position) return;
    log.info({ position: head.position, hash: head.hash }, "audit chain head");
    published = head;
  };
  const updatePartitions = async () => {
    const now = await agreedTime.read();
    if (!now) return;
    await addPartitions(db(), now);
    if (config.auditRetentionMs === 0 || !(await ownsPartitions(db()))) return;
    const dropped = await dropPartitions(
      db(),
      now,
      new Date(now.getTime() - config.auditRetentionMs),
    );
    if (dropped.length > 0) log.info({ dropped }, "old audit partitions dropped");
  };
  const jobs = [
    { name: "seal audit events", intervalMs: SEAL_INTERVAL_MS, run: seal },
    { name: "publish audit head", intervalMs: PUBLISH_INTERVAL_MS, run: publishHead },
    { name: "update audit partitions", intervalMs: PARTITION_INTERVAL_MS, run: updatePartitions },
  ].map((job) => every(job, { clock, log }));
  return {
    async close() {
      await Promise.all(jobs.map((job) => job.close()));
      await sealBatch() // the rest is left to other processes or the next start
        .then(publishHead)
        .catch(() => {}); // the database may be unavailable
    },
  };
}

/** Maximum number of late events listed in a log line. */
const MAX_LOGGED = 100;

function logLate(log: Logger, { position, late }: { position: number; late: string[] }): void {
  log.warn(
    { seal: position, count: late.length, events: late.slice(0, MAX_LOGGED) },
    "audit events were older than 10 minutes when sealed: inserted with a false date, or not sealed in time",
  );
}

/** Number of future months that have a partition. */
const MONTHS_AHEAD = 3;

/**
 * Adds the partitions of this month and the next ones.
 * @throws Error if it times out waiting for a lock: see `isLockTimeout`
 */
export async function addPartitions(db: Db, now: Date): Promise<void> {
  for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead++) await addPartition(db, monthOf(now, ahead));
}

/**
 * Drops the partitions in which all events are older than the month of `olderThan`, once these
 * events are sealed, and records that in the chain. Does nothing without the key of the last seal.
 * @throws Error if it times out waiting for a lock: see `isLockTimeout`
 * @returns the names of the dropped partitions
 */
export async function dropPartitions(db: SealDeps, now: Date, olderThan: Date): Promise<string[]> {
  return db.em.transactional(async () => {
    await limitLockTime(db);
    const last = await beginSeal(db);
    const partitions = await droppablePartitions(db, monthOf(olderThan, 0));
    const names = partitions.map(({ name }) => name);
    if (!last || !isAuthentic(db.cipher, last) || !partitions[0]) return [];
    await dropTables(db, names);
    await appendSeal(db, last, now, [], partitions[0].below);
    return names;
  });
}

/** The first day of the month that is `later` months after that of `time`. */
function monthOf(time: Date, later: number): string {
  return new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + later))
    .toISOString()
    .slice(0, 10);
}
