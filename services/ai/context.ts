import type { Logger } from "pino";
import type { Config } from "../platform/config.ts";
import type { Clock } from "../platform/process.ts";
import { createSessionWatcher } from "../sessions/check-session.ts";
import type { Store } from "../store/store.ts";
import { readCatalogue } from "./catalogue.ts";
import { openProviders } from "./providers/providers.ts";
import { openUsageLedger } from "./usage.ts";

/** What all AI calls of a process share. */
export type AiContext = ReturnType<typeof createAiContext>;

/**
 * Reads the catalogue and prepares its providers.
 * @throws Error with a message for operators, when the catalogue or a variable it names can't be used
 */
export function createAiContext(config: Pick<Config, "ai">, store: Pick<Store, "query">, clock: Clock, log: Logger) {
  const { catalogue: path, variables, ...limits } = config.ai;
  const catalogue = readCatalogue(path);
  const providers = openProviders(catalogue, variables, limits);
  const usage = openUsageLedger(store, clock, log);
  const sessions = createSessionWatcher(store, clock);
  const close = async () => {
    providers.close();
    await usage.flush();
  };
  return { catalogue, providers, usage, sessions, longestMs: limits.totalMs, close };
}
