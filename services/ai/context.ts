import type { Logger } from "pino";
import type { Config } from "../platform/config/config.ts";
import type { Clock } from "../platform/process/clock.ts";
import type { Store } from "../store/store.ts";
import { readCatalogue } from "./catalogue.ts";
import { createCredentialWatcher } from "./credential-watcher.ts";
import { openProviders } from "./providers/providers.ts";
import { openUsageLedger } from "./usage.ts";

/** Dependencies that all AI calls of a process share. */
export type AiContext = ReturnType<typeof createAiContext>;

/**
 * Reads the catalogue and prepares its providers.
 * @throws Error with a message for operators if the catalogue or a variable that it names is
 * invalid
 */
export function createAiContext(
  config: Config,
  store: Pick<Store, "query">,
  clock: Clock,
  log: Logger,
) {
  const catalogue = readCatalogue(config.aiCatalog);
  const providers = openProviders(catalogue, config.catalogueVariables, {
    firstByteMs: config.aiFirstByteTimeoutMs,
    idleMs: config.aiIdleTimeoutMs,
    totalMs: config.aiTotalTimeoutMs,
    retries: config.aiRetries,
    proxyEnv: config.proxies,
  });
  const usage = openUsageLedger(store, clock, log);
  const credentials = createCredentialWatcher(store, clock, log);
  const close = async () => {
    providers.close();
    await credentials.close();
    await usage.flush();
  };
  return { catalogue, providers, usage, credentials, longestMs: config.aiTotalTimeoutMs, close };
}
