import type { Logger } from "pino";
import type { Metrics } from "../metrics.ts";
import type { Config } from "../platform/config/config.ts";
import type { Clock } from "../platform/process/clock.ts";
import type { BudgetCounter, Crossing } from "../store/budgets.ts";
import type { Store } from "../store/store.ts";
import { createBudgetGate } from "./budgets/gate.ts";
import { createLostCalls } from "./budgets/lost-calls.ts";
import { createPeriods } from "./budgets/periods.ts";
import { leastNeedsOf } from "./budgets/upper-bound.ts";
import { readCatalogue } from "./catalogue.ts";
import { createCredentialWatcher } from "./credential-watcher.ts";
import { openProviders } from "./providers/providers.ts";
import { openUsageLedger } from "./usage.ts";

/** Dependencies that all AI calls of a process share. */
export type AiContext = ReturnType<typeof createAiContext>;

/** Called with counters of budgets that have reached their alert threshold or their limit. */
type OnCrossed = (crossings: readonly Crossing[]) => Promise<void>;

/**
 * Reads the catalogue and prepares its providers.
 * @throws Error with a message for operators if the catalogue or a variable that it names is
 * invalid
 */
export function createAiContext(
  config: Config,
  store: Pick<Store, "query" | "fork">,
  clock: Clock,
  log: Logger,
  metrics: Pick<Metrics, "attempts">,
  onCrossed: OnCrossed = () => Promise.resolve(),
) {
  const catalogue = readCatalogue(config.aiCatalog);
  const providers = openProviders(catalogue, config.catalogueVariables, {
    firstByteMs: config.aiFirstByteTimeoutMs,
    idleMs: config.aiIdleTimeoutMs,
    totalMs: config.aiTotalTimeoutMs,
    retries: config.aiRetries,
    proxyEnv: config.proxies,
    clock,
    log,
    onAttempt: (provider, outcome) => metrics.attempts.inc({ provider, outcome }),
  });
  const announcements = new Set<Promise<void>>();
  const announce = (crossings: readonly Crossing[]) => {
    const announcement = onCrossed(crossings)
      .catch((error) => log.warn({ reason: (error as Error).message }, "a budget alert was lost"))
      .finally(() => announcements.delete(announcement));
    announcements.add(announcement);
  };
  const usage = openUsageLedger(store, clock, log, announce);
  const periodsOf = createPeriods(config.budgetTimeZone);
  const { currency } = catalogue;
  const budgets = createBudgetGate({
    ...{ db: store, clock, log, periodsOf, currency },
    leastNeeds: leastNeedsOf(catalogue.providers.flatMap(({ models }) => models)),
    onExceeded: (counters) => announce(counters.map(exceededOf)),
    settleEnded: usage.flush,
  });
  const credentials = createCredentialWatcher(store, clock, log);
  const longestMs = config.aiTotalTimeoutMs;
  const settleLost = createLostCalls(store, longestMs, announce);
  const close = async () => {
    providers.close();
    await Promise.all([credentials.close(), budgets.close()]);
    await usage.flush();
    await Promise.all(announcements);
  };
  return {
    ...{ catalogue, providers, usage, budgets, periodsOf, settleLost, credentials },
    longestMs,
    close,
  };
}

/** A counter whose budget does not suffice any more. */
const exceededOf = ({ limit, ...counter }: BudgetCounter): Crossing => ({
  ...counter,
  limit: String(limit),
  isExceeded: true,
});
