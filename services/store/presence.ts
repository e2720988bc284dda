import type { Logger } from "pino";
import type { Store } from "./orm.ts";

/** How often a database that has failed somebody is looked at, in ms. */
const LOOK_MS = 1_000;
/** After this time in ms without a failure, it counts as back: where only some statements fail, others go well in between. */
const SETTLED_MS = 3_000;

/** Hears of an error that means that the database is away. */
export type Missed = (error: Error) => void;

/** Tells the log once when the database goes, however many miss it, and once when it has been back for a while. */
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
