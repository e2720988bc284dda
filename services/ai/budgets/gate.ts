import type { Logger } from "pino";
import type { Metrics } from "../../metrics.ts";
import { unauthenticated } from "../../platform/gate/authenticate.ts";
import { every } from "../../platform/process/background.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { type ServiceError, unavailable } from "../../platform/rpc/errors.ts";
import {
  addCounters,
  type BudgetCounter,
  type BudgetScope,
  budgetsExist,
  type ReserveOutcome,
  type ReserveRequest,
  reserveBudgets,
} from "../../store/budgets.ts";
import type { HotDb } from "../../store/statement.ts";
import type { UsageRow } from "../../store/usage.ts";
import { highestCost, largest } from "../price.ts";
import type { AnyPrompt } from "../providers/provider.ts";
import type { Targets } from "../targets.ts";
import type { Periods } from "./periods.ts";
import { budgetExceeded, budgetHeaders, modelNotPriced, needOf } from "./refuse.ts";
import { mostInputTokens, outputBounds } from "./upper-bound.ts";

/** Interval in which a process checks whether any budget exists, in ms. The first budget applies within this time. */
const WATCH_INTERVAL_MS = 750;
/** How long a refusal is remembered, in ms, so that a flood of refused calls locks no counters. */
const REFUSAL_MS = 1_000;
const MAX_REFUSALS = 10_000;
/** Attempts to reserve: one, one with the counters that were missing, and some more while budgets change. */
const MAX_ATTEMPTS = 5;
/**
 * Reservations of a process at a time. They wait for each other in the database anyway, and would leave no
 * connection for other calls there.
 */
const MAX_CONCURRENT = 5;

type GateDeps = {
  db: HotDb;
  clock: Clock;
  log: Logger;
  periodsOf: (now: Date) => Periods;
  currency: string;
  /** Called with the counters whose period is used up for the first time. */
  onExceeded: (counters: readonly BudgetCounter[]) => void;
  /** Books the calls of this process that have ended. */
  settleEnded: () => Promise<void>;
};

/** The maximum usage of a call. */
export type BudgetReservation = {
  /** Maximum number of output tokens. */
  outputTokens: number;
  /** Maximum number of input tokens, all attempts together. */
  inputTokens: number;
  /** Maximum cost of the call, in nano-units; null without a price. */
  cost: bigint | null;
  /** Response headers. */
  headers: readonly [name: string, value: string][];
};

/** A call that asks for a reservation, with the name of its first model without a price. */
type GateRequest = ReserveRequest & { unpriced: string | undefined };

/** A refusal that also applies to calls that need as much of the same counters. */
type Refusal = {
  need: bigint;
  error: (request: GateRequest) => ServiceError;
  /** The error, if a budget has too little left. */
  scope?: BudgetScope;
};

/** Creates the gate that admits AI calls within their budgets. */
export function createBudgetGate(deps: GateDeps) {
  const { db, clock, log, periodsOf, currency, onExceeded, settleEnded } = deps;
  let mayExist = true; // until the table has been read
  let hasLogged = false;
  let changes = 0;
  const refusals = new Map<string, Refusal & { until: number }>();
  const inTurn = createTurns(MAX_CONCURRENT);

  async function watch(): Promise<void> {
    const before = changes;
    const exist = await budgetsExist(db).catch((error) => {
      mayExist = true; // never let calls pass because it is unknown
      throw error;
    });
    if (changes === before) mayExist = exist; // otherwise it may have been read before the change
    if (exist && !hasLogged)
      log.info("budgets limit AI calls: they hold once every replica runs this release");
    hasLogged ||= exist;
  }
  const watching = every(
    { name: "watch budgets", intervalMs: WATCH_INTERVAL_MS, run: watch },
    { clock, log },
  );

  function remember(refused: string, refusal: Refusal): void {
    if (refusals.size >= MAX_REFUSALS) refusals.clear();
    refusals.set(refused, { ...refusal, until: performance.now() + REFUSAL_MS });
  }

  /** @throws ServiceError BUDGET_EXCEEDED, MODEL_NOT_PRICED, if a call that needs no more has just been refused */
  function refuseAgain(request: GateRequest, metrics: Metrics): void {
    for (const { of, need } of needsOf(request)) {
      const refusal = refusals.get(of);
      if (!refusal || need < refusal.need) continue;
      const now = performance.now();
      if (now > refusal.until) {
        refusal.until = now + REFUSAL_MS; // this call asks once more, and others wait for what it finds
        continue;
      }
      if (refusal.scope) metrics.budgetRefusals.inc({ scope: refusal.scope });
      throw refusal.error(request);
    }
  }

  /** Forgets the refusals of calls that needed no more than one that has passed. */
  function forgetRefusals(passed: GateRequest): void {
    for (const { of, need } of needsOf(passed)) {
      const refusal = refusals.get(of);
      if (refusal && need >= refusal.need) refusals.delete(of);
    }
  }

  /** Remembers a refusal without data of its caller, because other callers may share the counter. */
  function refuse(
    { least }: ReserveRequest,
    counters: readonly BudgetCounter[],
    periods: Periods,
    now: Date,
    metrics: Metrics,
  ): ServiceError {
    const lacking = counters.filter(
      (each) => each.limit - each.used - each.reserved < needOf(each, least),
    );
    // the one that takes longest to have enough again, and otherwise one whose figures may be shown
    const weightOf = (each: BudgetCounter) =>
      (each.limit - each.used < needOf(each, least) ? periods.endsAt[each.period].getTime() : 0) +
      (each.scope === "deployment" ? 0 : 1);
    const refusing = lacking.reduce((most, each) =>
      weightOf(each) > weightOf(most) ? each : most,
    );
    const { scope, subject, unit } = refusing;
    const errorWith = (shown: readonly BudgetCounter[]) =>
      budgetExceeded(refusing, shown, least, { periods, now, currency });
    remember(`${subject} ${unit}`, {
      ...{ need: needOf(refusing, least), scope },
      error: () => errorWith([refusing]),
    });
    metrics.budgetRefusals.inc({ scope });
    return errorWith(counters);
  }

  /**
   * Queries the database until every budget of the call has its counter.
   * @throws ServiceError UNAUTHENTICATED, UNAVAILABLE
   */
  async function ask(request: ReserveRequest): Promise<ReserveOutcome> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const outcome = await reserveBudgets(db, request);
      if (!outcome.hasOwner) throw unauthenticated();
      if (outcome.isUnpriced || outcome.counters.length === outcome.rules) return outcome;
      await addCounters(db, request);
    }
    throw unavailable("The budgets are changing. Please try again.");
  }

  /**
   * Queries once more if only calls in progress are in the way: some may have ended, such as the one before in the
   * same conversation, and wait to be booked.
   * @throws ServiceError UNAUTHENTICATED, UNAVAILABLE
   */
  async function askSettled(request: ReserveRequest): Promise<ReserveOutcome> {
    const outcome = await ask(request);
    if (!isHeld(outcome, request.least)) return outcome;
    await settleEnded();
    return ask(request);
  }

  /** @throws ServiceError BUDGET_EXCEEDED, MODEL_NOT_PRICED, UNAUTHENTICATED, UNAVAILABLE */
  async function tryToReserve(
    request: GateRequest,
    periods: Periods,
    metrics: Metrics,
  ): Promise<BudgetReservation | undefined> {
    const { rules, counters, isUnpriced, granted } = await askSettled(request);
    if (rules === 0) return undefined;
    if (isUnpriced) {
      remember(priceNeed(request), { need: 0n, error: unpricedError });
      throw unpricedError(request);
    }
    const exceeded = counters.filter(({ isNewlyExceeded }) => isNewlyExceeded);
    if (exceeded.length > 0) onExceeded(exceeded);
    const now = clock.now();
    if (granted === null) throw refuse(request, counters, periods, now, metrics);
    forgetRefusals(request);
    const held = counters.map((each) => ({
      ...each,
      reserved: each.reserved + needOf(each, granted),
    }));
    return {
      outputTokens: granted,
      inputTokens: request.inputTokens,
      cost: costOfNeed(request, granted),
      headers: budgetHeaders(held, periods, now),
    };
  }

  return {
    /**
     * Reserves the maximum usage of a call, if any budget limits it. Its row is written with the
     * reservation.
     * @param prompts for each model that the call may go to. Under a budget of money, all of them need a price
     * @param signal fires when the caller has disconnected: a call that still waits then reserves nothing
     * @returns undefined if no budget limits the call. Then nothing is written
     * @throws ServiceError BUDGET_EXCEEDED, MODEL_NOT_PRICED, UNAUTHENTICATED, UNAVAILABLE; the reason of the signal
     */
    async reserve(
      row: UsageRow,
      prompts: Targets<AnyPrompt>,
      metrics: Metrics,
      signal: AbortSignal,
    ): Promise<BudgetReservation | undefined> {
      if (!mayExist) return undefined;
      const startedAt = performance.now();
      const inputTokens = Math.max(...prompts.map(mostInputTokens));
      const most = highestOf(prompts, inputTokens);
      const unpriced = prompts.find(({ model }) => model.price === undefined);
      const periods = periodsOf(row.created_at);
      const request = {
        ...{ row, starts: periods.starts, inputTokens },
        inputCost: most?.input ?? null,
        outputCost: most?.perOutputToken ?? null,
        unpriced: unpriced?.model.name,
        ...widestBounds(prompts),
      };
      refuseAgain(request, metrics);
      try {
        return await inTurn(async (hasWaited) => {
          signal.throwIfAborted();
          if (hasWaited) refuseAgain(request, metrics);
          return tryToReserve(request, periods, metrics);
        });
      } finally {
        metrics.budgetReserveSeconds.observe((performance.now() - startedAt) / 1000);
      }
    },
    /** Forgets what this process has cached about budgets, after a change. */
    forget(): void {
      changes += 1;
      mayExist = true;
      refusals.clear();
    },
    close: watching.close,
  };
}

/** Whether calls in progress are all that keeps a call from its budgets. */
const isHeld = ({ rules, isUnpriced, granted, counters }: ReserveOutcome, least: number): boolean =>
  rules > 0 &&
  !isUnpriced &&
  granted === null &&
  counters.every((each) => each.limit - each.used >= needOf(each, least));

/** Maximum cost of a call over all of its models; undefined if one has no price. */
function highestOf(prompts: Targets<AnyPrompt>, inputTokens: number) {
  const costs = prompts.map(({ model: { price } }) => price && highestCost(price, inputTokens));
  const known = costs.filter((cost) => cost !== undefined);
  if (known.length < costs.length) return undefined;
  return {
    input: largest(known.map(({ input }) => input)),
    perOutputToken: largest(known.map(({ perOutputToken }) => perOutputToken)),
  };
}

/** The bounds of the output over all of its models. None gets less than it needs. */
function widestBounds(prompts: Targets<AnyPrompt>) {
  const bounds = prompts.map(outputBounds);
  return {
    wanted: Math.max(...bounds.map(({ wanted }) => wanted)),
    least: Math.max(...bounds.map(({ least }) => least)),
  };
}

/** Maximum cost of a call with a number of output tokens, in nano-units; null without a price. */
const costOfNeed = ({ inputCost, outputCost }: ReserveRequest, outputTokens: number) =>
  inputCost === null || outputCost === null ? null : inputCost + outputCost * BigInt(outputTokens);

/**
 * What a call needs: at least so much of the counters that may limit it, by subject and unit; without a price, no
 * budget of money.
 */
function needsOf(request: GateRequest): { of: string; need: bigint }[] {
  const { row, inputTokens, least } = request;
  const cost = costOfNeed(request, least);
  const subjects = ["", row.user_id, row.api_key_id].filter((subject) => subject !== null);
  const needs = subjects.flatMap((subject) => [
    { of: `${subject} tokens`, need: BigInt(inputTokens + least) },
    ...(cost === null ? [] : [{ of: `${subject} cost`, need: cost }]),
  ]);
  return cost === null ? [{ of: priceNeed(request), need: 0n }, ...needs] : needs;
}

/** What a call without a price needs of its user and API key: that no budget limits its cost. */
const priceNeed = ({ row }: GateRequest) => `${row.user_id} ${row.api_key_id} price`;

const unpricedError = ({ unpriced, row }: GateRequest) => modelNotPriced(unpriced ?? row.model);

/** Runs tasks in the order of their calls, and a limited number of them at a time. */
function createTurns(most: number) {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async <T>(task: (hasWaited: boolean) => Promise<T>): Promise<T> => {
    const hasWaited = running >= most;
    if (hasWaited) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await task(hasWaited);
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  };
}
