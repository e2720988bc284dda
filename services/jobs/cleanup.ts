import { setTimeout as wait } from "node:timers/promises";
import { purgeDeletedUsers } from "../accounts/purge-deleted.ts";
import type { AuditDeps } from "../audit/record.ts";
import type { AppContext } from "../call.ts";
import { type ExpiredRows, purgeExpired } from "../store/purge.ts";
import type { Store } from "../store/store.ts";

/** How often a process checks whether a chore is due, in ms. */
const LOOK_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** Periodic work off the request path. Every process does it; several may do the same chore at once. */
type Chore = { name: string; everyMs: number; run: (signal: AbortSignal) => Promise<void> };

/** The work of one process that runs in the background. */
export type RunningJobs = { close(): Promise<void> };

/** Does what is due: erases accounts, renews signing keys, clears what has ended. */
export function startJobs(tools: AppContext, store: Store): RunningJobs {
  const closing = new AbortController();
  const running = repeat(choresOf(tools, store), tools, closing.signal);
  return {
    async close() {
      closing.abort();
      await running;
    },
  };
}

async function repeat(chores: Chore[], { clock, log }: AppContext, signal: AbortSignal): Promise<void> {
  const dueAt = new Map<Chore, number>();
  while (!signal.aborted) {
    await wait(LOOK_MS, undefined, { signal, ref: false }).catch(() => {});
    for (const chore of chores) {
      const now = clock.now().getTime();
      const waitMs = (dueAt.get(chore) ?? now) - now;
      if (signal.aborted || (waitMs > 0 && waitMs <= chore.everyMs)) continue; // longer: the clock was put back meanwhile
      dueAt.set(chore, now + chore.everyMs);
      await chore.run(signal).catch((error) => {
        log.warn({ chore: chore.name, reason: (error as Error).message }, "a chore failed and is done again");
        dueAt.set(chore, now + Math.min(chore.everyMs, MINUTE_MS));
      });
    }
  }
}

function choresOf(tools: AppContext, store: Store): Chore[] {
  const newCall = (): AuditDeps => ({
    ...tools,
    em: store.fork(),
    client: { address: "127.0.0.1", agent: "chores" },
    requestId: "chores",
    caller: undefined,
  });
  return [
    { name: "erase accounts", everyMs: MINUTE_MS, run: () => purgeDeletedUsers(newCall) },
    { name: "renew signing keys", everyMs: MINUTE_MS, run: () => tools.keys.rotate() },
    {
      name: "clear what has ended",
      everyMs: HOUR_MS,
      run: async (signal) => {
        for (const litter of expiredRows(tools)) await purgeExpired(store, litter, signal);
      },
    },
  ];
}

/** Sessions that have ended, tokens whose time is up, and counters that no longer count. */
function expiredRows({ clock, config: { lockout } }: AppContext): ExpiredRows[] {
  const now = clock.now();
  const forgotten = new Date(now.getTime() - lockout.resetMs - lockout.durationMs);
  return [
    {
      table: "sessions",
      key: "id",
      condition: `(revoked_at is not null or expires_at <= ?)
        and not exists (select from sessions i where i.actor_session_id = sessions.id)`, // impersonations go first, else the cascade waits for their locks
      values: [now],
    },
    { table: "one_time_tokens", key: "id", condition: "expires_at <= ?", values: [now] },
    { table: "attempts", key: "kind, subject", condition: "reserved_at <= ?", values: [forgotten] },
  ];
}
