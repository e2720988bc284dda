import type { Logger } from "pino";
import type { Config } from "../platform/config.ts";
import type { Clock } from "../platform/process.ts";
import { createSessionWatcher, type SessionWatcher } from "../sessions/check-session.ts";
import type { Store } from "../store/store.ts";
import { type Catalogue, readCatalogue } from "./catalogue.ts";
import { openProviders, type Providers } from "./providers/providers.ts";
import { openUsageLedger, type UsageLedger } from "./usage.ts";

/** What all AI calls of a process share. */
export type AiContext = {
  catalogue: Catalogue;
  providers: Providers;
  usage: UsageLedger;
  /** The sessions behind the streams that are under way. */
  sessions: SessionWatcher;
  /** The longest that a call can take. */
  longestMs: number;
  close(): Promise<void>;
};

/**
 * Reads the catalogue and prepares its providers.
 * @throws Error with a message for operators, when the catalogue or a variable it names can't be used
 */
export function createAiContext(
  config: Pick<Config, "ai">,
  store: Pick<Store, "query">,
  clock: Clock,
  log: Logger,
): AiContext {
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
