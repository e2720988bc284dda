import type { Logger } from "pino";
import { every } from "../jobs/every.ts";
import type { Config } from "../platform/config.ts";
import type { Clock } from "../platform/process.ts";
import { ownsPartitions } from "../store/audit-partitions.ts";
import { type Head, headOf } from "../store/audit-seals.ts";
import type { Db, Store } from "../store/store.ts";
import { addPartitions, dropPartitions } from "./partitions.ts";
import { sealEvents } from "./seal.ts";

/** How often new events are sealed, in ms. */
const SEAL_INTERVAL_MS = 1_000;
/** How often a new head is logged, in ms. Who changes the table can't change what the log has kept. */
const PUBLISH_INTERVAL_MS = 60_000;
/** How often partitions are added and dropped, in ms. */
const PARTITION_INTERVAL_MS = 3_600_000;

/** Seals the audit log in the background, logs its head, and adds and drops its monthly partitions. */
export type AuditWorker = {
  /** Seals one more batch, logs the head, and stops. */
  close(): Promise<void>;
};

type Deps = { store: Store; clock: Clock; config: Pick<Config, "auditRetentionMs">; log: Logger };

export function startAuditWorker({ store, clock, config, log }: Deps): AuditWorker {
  const db = (): Db => ({ em: store.fork() });
  let published: Head | undefined;
  const seal = async (signal = AbortSignal.abort()) => {
    do {
      const batch = await sealEvents(db(), clock.now());
      if (!batch?.more) return;
    } while (!signal.aborted);
  };
  const publishHead = async () => {
    const head = await headOf(db());
    if (!head || head.position === published?.position) return;
    log.info({ position: head.position, hash: head.hash }, "audit chain head");
    published = head;
  };
  const updatePartitions = async () => {
    const now = clock.now();
    await addPartitions(db(), now);
    if (config.auditRetentionMs === 0 || !(await ownsPartitions(db()))) return;
    const dropped = await dropPartitions(db(), now, new Date(now.getTime() - config.auditRetentionMs));
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
      await seal() // one batch: the rest is left to other processes or the next start
        .then(publishHead)
        .catch(() => {}); // the database may be unavailable
    },
  };
}
