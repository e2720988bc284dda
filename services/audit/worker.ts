import type { Logger } from "pino";
import type { Config } from "../config.ts";
import type { Clock } from "../platform/clock.ts";
import type { Store } from "../store/store.ts";
import type { Head } from "./chain.ts";
import { addPartitions, dropPartitions, ownsPartitions } from "./partitions.ts";
import { headOf, sealEvents } from "./seal.ts";

/** How often new events are sealed, in ms. */
const SEAL_MS = 1_000;
/** How often the head is told to the log, in ms, when it has moved: what the log keeps can't be rewritten with the table. */
const TELL_MS = 60_000;
/** How often partitions are added and dropped, in ms. */
const PARTITIONS_MS = 3_600_000;

/** Keeps the audit log in the background: seals it, tells its head, adds and drops its months. */
export type AuditWorker = {
  /** Seals one more batch, tells the head, and stops. */
  close(): Promise<void>;
};

type Needs = { store: Store; clock: Clock; config: Pick<Config, "auditRetentionMs">; log: Logger };

export function startAuditWorker({ store, clock, config, log }: Needs): AuditWorker {
  let told: Head | undefined;
  let closing = false;
  const seal = async () => {
    let batch: Awaited<ReturnType<typeof sealEvents>>;
    do batch = await sealEvents(store.fork(), clock.now());
    while (batch?.more && !closing);
  };
  const tell = async () => {
    const head = await headOf(store.fork());
    if (!head || head.position === told?.position) return;
    log.info({ position: head.position, hash: head.hash }, "audit chain head");
    told = head;
  };
  const partition = async () => {
    const now = clock.now();
    await addPartitions(store.fork(), now);
    if (config.auditRetentionMs === 0 || !(await ownsPartitions(store.fork()))) return;
    const dropped = await dropPartitions(store.fork(), now, new Date(now.getTime() - config.auditRetentionMs));
    if (dropped.length > 0) log.info({ dropped }, "old audit partitions dropped");
  };
  const duties = [
    every(SEAL_MS, "seal", seal, log),
    every(TELL_MS, "head", tell, log),
    every(PARTITIONS_MS, "partition", partition, log),
  ];
  return {
    async close() {
      closing = true; // many that wait are left to the others, or to the next start
      await Promise.all(duties.map((duty) => duty.close()));
      await seal()
        .then(tell)
        .catch(() => {}); // the database may be away
    },
  };
}

/** Does something at once and then at intervals, never twice at a time; a failure is told once, until it has passed. */
function every(intervalMs: number, what: string, work: () => Promise<void>, log: Logger): { close(): Promise<void> } {
  let failing = false;
  let running: Promise<void> | undefined;
  const run = () => {
    running ??= work()
      .then(
        () => {
          failing = false;
        },
        (error: Error) => {
          if (!failing) log.warn({ reason: error.message }, `the audit log's ${what} has to wait`);
          failing = true;
        },
      )
      .finally(() => {
        running = undefined;
      });
  };
  run();
  const timer = setInterval(run, intervalMs);
  return {
    async close() {
      clearInterval(timer);
      await running;
    },
  };
}
