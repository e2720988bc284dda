import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { every } from "../platform/process/background.ts";
import type { Clock } from "../platform/process/clock.ts";

/** Times of a queue, in ms. */
export type QueueTimes = {
  /** Time after which an item counts as slow. */
  slowMs: number;
  /**
   * How long a claimed item belongs to its process; extended while it is worked on. After a crash,
   * or a database outage longer than this, other processes work on it.
   */
  leaseMs: number;
  extendMs: number;
  /** The longest time for an item. */
  itemMs: number;
  /**
   * How long closing waits for items; shorter than the whole shutdown, see `shutdownOnSignal`.
   * Items that take longer are cancelled, and worked on again by the next process.
   */
  closeMs: number;
};

/** How often, and for how long, recording a result is retried while the database fails, in ms. */
const RECORD_RETRY_MS = 1_000;
const RECORD_TIMEOUT_MS = 10 * 60_000;
/** How long closing waits for cancelled items to be recorded, in ms. */
const END_TIMEOUT_MS = 2_000;
/**
 * How often an idle process polls for items that other processes have queued or left behind, in ms.
 */
const POLL_INTERVAL_MS = 1_000;

/** A row claimed by a process. `attempts` includes the current attempt and identifies the claim. */
export type Claimed = { id: string; attempts: number };

/** A claim, for the statement that extends its lease. */
export type Leases = { ids: string[]; attempts: number[]; leaseMs: number };

/** What a claim may have left: nothing, items that are due, or some that wait for a place. */
type Left = "nothing" | "due" | "waiting";

/** What a queue does with its items. */
export type QueueWork<Item extends Claimed, Result> = {
  /** The items of the queue, in the log. */
  name: string;
  /** Whether no more may be claimed now. `recent`: those in hand that are not slow yet. */
  isBusy(inHand: number, recent: number): boolean;
  /**
   * Claims due items for the duration of a lease.
   * @param inHand ids of the items that this process is working on
   * @returns them, and what is left
   */
  claim(leaseMs: number, inHand: string[]): Promise<{ items: Item[]; left: Left }>;
  /** Extends the leases of items, unless another process has claimed them. */
  extend(leases: Leases): Promise<unknown>;
  /** Works on an item. Never throws. */
  attempt(item: Item, signal: AbortSignal): Promise<Result>;
  /**
   * Records a result, unless another process has claimed the item in the meantime. Called again if
   * it throws.
   * @param isCancelled whether the attempt was cancelled by closing: it is immediately due again
   */
  record(item: Item, result: Result, isCancelled: boolean): Promise<unknown>;
};

/**
 * Starts to work on the rows of a queue, each at least once. Any number of processes share a queue:
 * each claims rows for the duration of a lease, so that no transaction is open while an item is
 * worked on.
 */
export function startQueue<Item extends Claimed, Result>(
  work: QueueWork<Item, Result>,
  times: QueueTimes,
  { clock, log }: { clock: Clock; log: Logger },
) {
  /** `inHand`: all items and how to cancel them; `recent`: those that are not slow yet. */
  const inHand = new Map<Item, AbortController>();
  const recent = new Set<Item>();
  const closed = new AbortController();
  let change = Promise.withResolvers<void>();
  let left: Left = "nothing";

  /** A place has become free. */
  const changed = () => {
    change.resolve();
    change = Promise.withResolvers();
    if (left !== "nothing") claiming.wake();
  };

  async function claimDue(closing: AbortSignal): Promise<void> {
    for (left = "due"; left === "due"; ) {
      if (closing.aborted || work.isBusy(inHand.size, recent.size)) return;
      const claimed = await work.claim(
        times.leaseMs,
        [...inHand.keys()].map(({ id }) => id),
      );
      left = claimed.left;
      for (const item of claimed.items) void process(item);
    }
  }

  /** Works on an item and records the result. Never throws. */
  async function process(item: Item): Promise<void> {
    const ending = new AbortController();
    inHand.set(item, ending);
    recent.add(item);
    const leavePlace = () => {
      recent.delete(item);
      changed();
    };
    const timers = [
      setTimeout(leavePlace, times.slowMs),
      setTimeout(() => ending.abort(), times.itemMs),
    ];
    const result = await work.attempt(item, ending.signal);
    for (const timer of timers) clearTimeout(timer);
    await record(item, result);
    inHand.delete(item);
    leavePlace();
  }

  /**
   * Records a result. Keeps retrying while the database fails, since an item that has succeeded
   * would otherwise be worked on again after its lease.
   */
  async function record(item: Item, result: Result): Promise<void> {
    const deadline = performance.now() + RECORD_TIMEOUT_MS;
    const isCancelled = closed.signal.aborted;
    while (!(await isRecorded(item, result, isCancelled)) && performance.now() < deadline) {
      if (closed.signal.aborted) return;
      await wait(RECORD_RETRY_MS, undefined, { signal: closed.signal }).catch(() => {});
    }
  }

  const isRecorded = (item: Item, result: Result, isCancelled: boolean) =>
    work.record(item, result, isCancelled).then(
      () => true,
      () => false,
    );

  async function extend(): Promise<void> {
    const claims = [...inHand.keys()];
    if (claims.length === 0) return;
    const ids = claims.map(({ id }) => id);
    const attempts = claims.map((claim) => claim.attempts);
    await work.extend({ ids, attempts, leaseMs: times.leaseMs });
  }

  const claiming = every(
    { name: `send ${work.name}`, intervalMs: POLL_INTERVAL_MS, run: claimDue },
    { clock, log },
  );
  const extending = every(
    { name: `extend leases of ${work.name}`, intervalMs: times.extendMs, run: extend },
    { clock, log },
  );

  async function finishItems(): Promise<void> {
    await claiming.close();
    while (inHand.size > 0) await change.promise;
    await extending.close();
  }

  function endItems(): void {
    log.warn(
      { [work.name]: inHand.size },
      `${work.name} cancelled by shutdown, will be sent again`,
    );
    closed.abort();
    for (const ending of inHand.values()) ending.abort();
  }

  return {
    /** Checks for due items now. */
    wake: claiming.wake,
    /** Stops once all items in hand have finished or have been cancelled. */
    async close() {
      const finished = finishItems();
      const within = (ms: number) => Promise.race([finished, wait(ms, undefined, { ref: false })]);
      await within(times.closeMs);
      if (inHand.size === 0) return;
      endItems();
      await within(END_TIMEOUT_MS);
    },
  };
}
