import type { Logger } from "pino";
import type { Store } from "./store.ts";

/** How often a database that was away is checked, in ms. */
const LOOK_MS = 1_000;
/** It counts as back after this time in ms without a failure: it may be that only some statements fail. */
const SETTLED_MS = 3_000;

/** Reports an error that means that the database is away. */
export type Missed = (error: Error) => void;

/** Logs once when the database goes away, however many calls fail, and once when it has been back for a while. */
export function watchPresence({ ping }: Pick<Store, "ping">, log: Logger): Missed {
  let goneAt: number | undefined;
  let missedAt = 0;
  const look = async () => {
    await ping().catch(() => {
      missedAt = performance.now();
    });
    if (performance.now() < missedAt + SETTLED_MS) return lookLater();
    log.info({ seconds: Math.round((missedAt - (goneAt ?? missedAt)) / 1_000) }, "the database is back");
    goneAt = undefined;
  };
  const lookLater = () => void setTimeout(look, LOOK_MS).unref();
  return ({ message: reason }) => {
    missedAt = performance.now();
    if (goneAt !== undefined) return;
    goneAt = missedAt;
    log.error({ reason }, "the database is away");
    lookLater();
  };
}
