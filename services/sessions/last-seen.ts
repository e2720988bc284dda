import type { Store } from "../store/store.ts";

/** What was seen is written together after this time, in ms. */
const FLUSH_INTERVAL_MS = 1_000;
/** Sessions of one statement. */
const BATCH = 500;
/** A session's time is written again when it is this old, in ms: with the above well within a minute. */
export const LAST_SEEN_RESOLUTION_MS = 30_000;

/** Notes which sessions are in use, off the request path. */
export type LastSeen = {
  touch(sessionId: string, at: Date): void;
  /** Writes what is left. */
  close(): Promise<void>;
};

/** Collects the use of sessions and writes it in batches. Touches no index, and steps aside for whoever holds a row. */
export function createLastSeen(store: Store): LastSeen {
  const seen = new Map<string, Date>();
  let timer: NodeJS.Timeout | undefined;
  let writing = Promise.resolve();
  const flush = async () => {
    clearTimeout(timer);
    timer = undefined;
    const rows = [...seen].map(([id, at]) => ({ id, at }));
    seen.clear();
    for (let i = 0; i < rows.length; i += BATCH) await write(store, rows.slice(i, i + BATCH));
  };
  const flushNext = () => {
    writing = writing.then(flush).catch(() => {}); // the database is away: the next request notes the session again
    return writing;
  };
  return {
    touch(sessionId, at) {
      seen.set(sessionId, at);
      timer ??= setTimeout(flushNext, FLUSH_INTERVAL_MS);
    },
    close: flushNext,
  };
}

async function write(store: Store, rows: { id: string; at: Date }[]): Promise<void> {
  await store.fork().execute(
    `with due as (
       select s.id, v.at from jsonb_to_recordset(?::jsonb) as v (id uuid, at timestamptz)
       join sessions s on s.id = v.id where s.last_active_at < v.at
       for no key update of s skip locked)
     update sessions as s set last_active_at = due.at from due where s.id = due.id`,
    [JSON.stringify(rows)],
  );
}
