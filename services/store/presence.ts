import type { Logger } from "pino";
import type { Store } from "./orm.ts";

/** How often a database that has failed somebody is looked at, in ms. */
const LOOK_MS = 1_000;

/** Hears of an error that means that the database is away. */
export type Missed = (error: Error) => void;

/**
 * Tells the log once when the database goes, however many miss it, and once when it is back: it answers, takes writes,
 * and nobody has missed it since the last look.
 */
export function watchPresence({ ping }: Pick<Store, "ping">, log: Logger): Missed {
  let goneAt: number | undefined;
  let isMissed = false;
  const look = async () => {
    isMissed = false;
    const answers = await ping().then(
      () => true,
      () => false,
    );
    if (!answers || isMissed) return lookLater();
    log.info({ seconds: Math.round((performance.now() - (goneAt ?? 0)) / 1_000) }, "the database is back");
    goneAt = undefined;
  };
  const lookLater = () => void setTimeout(look, LOOK_MS).unref();
  return ({ message: reason }) => {
    isMissed = true;
    if (goneAt !== undefined) return;
    goneAt = performance.now();
    log.error({ reason }, "the database is away");
    lookLater();
  };
}
