import type { Logger } from "pino";
import type { Metrics } from "../../metrics.ts";
import type { KeyReference } from "../../platform/gate/api-key-cache.ts";
import { unauthenticated } from "../../platform/gate/authenticate.ts";
import { every } from "../../platform/process/background.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { type ServiceError, unavailable } from "../../platform/rpc/errors.ts";
import {
  addCounters,
  type BudgetCounter,
  type BudgetUnit,
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
import { counterOf, createRefusals, type Need } from "./recent-refusals.ts";
import { budgetExceeded, budgetHeaders, modelNotPriced, needOf } from "./refuse.ts";
import { mostInputTokens, outputBounds } from "./upper-bound.ts";

/**
 * Interval in which a process checks whether any budget exists, in ms. The first budget applies
 * within this time.
 */
const WATCH_INTERVAL_MS = 750;
/**
 * Attempts to reserve: one, one with the counters that were missing, and some more while budgets
 * change.
 */
const MAX_ATTEMPTS = 5;
/** Time in which other processes book a call that has ended, in ms: five times their interval. */
const OTHERS_SETTLE_MS = 100;
/** Maximum number of calls that one statement reserves for. */
const MAX_TOGETHER = 20;

type GateDeps = {
  db: HotDb;
  clock: Clock;
  log: Logger;
  periodsOf: (now: Date) => Periods;
  currency: string;
  /** What every call needs at least, see `leastNeedsOf`. */
  leastNeeds: Record<BudgetUnit, bigint>;
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

/** A call that waits for the answer. */
type WaitingCall = {
  request: GateRequest;
  periods: Periods;
  metrics: Metrics;
  signal: AbortSignal;
  /** Other calls were asked for while it waited. */
  hasWaited: boolean;
  /** It finds out for others whether a refusal still applies. */
  renewsRefusal: boolean;
  attempts: number;
  /** How often it has asked again because calls that have ended may not have been booked. */
  rounds: number;
  answer: PromiseWithResolvers<BudgetReservation | undefined>;
};

/** Creates the gate that admits AI calls within their budgets. */
export function createBudgetGate(deps: GateDeps) {
  const { db, clock, log, periodsOf, currency, leastNeeds, onExceeded, settleEnded } = deps;
  let mayExist = true; // until the table has been read
  let hasLogged = false;
  let changes = 0;
  const refusals = createRefusals();
  const waiting: WaitingCall[] = [];
  let isReserving = false;

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

  /**
   * @throws ServiceError BUDGET_EXCEEDED, MODEL_NOT_PRICED, if a call that needs no more has just
   * been refused
   */
  function refuseAgain(request: GateRequest, metrics: Metrics): void {
    const refusal = refusals.find(needsOf(request));
    if (!refusal) return;
    if (refusal.scope) metrics.budgetRefusals.inc({ scope: refusal.scope });
    throw refusal.error(request.unpriced ?? request.row.model);
  }

  /**
   * Remembers a refusal without data of its caller, because other callers may share the counter, and
   * forgets those of the counters that have enough: calls of one user, refused by the user's budget,
   * must not keep a refusal by the deployment's in force.
   */
  function refuse(
    request: GateRequest,
    counters: readonly BudgetCounter[],
    periods: Periods,
    now: Date,
    metrics: Metrics,
  ): ServiceError {
    const { least } = request;
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
    const { scope, unit } = refusing;
    const errorWith = (shown: readonly BudgetCounter[]) =>
      budgetExceeded(refusing, shown, least, { periods, now, currency });
    const short = new Set(lacking.map(counterOf));
    refusals.forgetMet(needsOf(request).filter(({ of }) => !short.has(of)));
    refusals.remember(counterOf(refusing), {
      ...{ need: needOf(refusing, least), scope },
      isForAll: refusing.limit - refusing.used < leastNeeds[unit],
      error: () => errorWith([refusing]),
    });
    metrics.budgetRefusals.inc({ scope });
    return errorWith(counters);
  }

  /**
   * Reserves for the calls that wait. Those that arrive during a statement share the next one, and
   * one commit.
   */
  async function reserveWaiting(): Promise<void> {
    if (isReserving) return;
    isReserving = true;
    while (waiting.length > 0)
      await reserveTogether(waiting.splice(0, MAX_TOGETHER).filter(mayAsk));
    isReserving = false;
  }

  /** Whether a call may still ask. If not, it is answered. */
  function mayAsk(call: WaitingCall): boolean {
    const { request, metrics, signal } = call;
    try {
      signal.throwIfAborted();
      if (call.hasWaited && !call.renewsRefusal) refuseAgain(request, metrics);
      call.renewsRefusal ||= refusals.renew(needsOf(request));
      return true;
    } catch (error) {
      call.answer.reject(error);
      return false;
    }
  }

  /** Answers calls, or lets them ask once more with the next statement. */
  async function reserveTogether(calls: readonly WaitingCall[]): Promise<void> {
    if (calls.length === 0) return;
    try {
      const outcomes = await reserveBudgets(db, requestsOf(calls));
      const steps = calls.map((call, i) => nextStepAfter(call, outcomes[i] as ReserveOutcome));
      const callsThat = (step: NextStep) => calls.filter((_, i) => steps[i] === step);
      for (const [i, outcome] of outcomes.entries())
        if (steps[i] === "answer") conclude(calls[i] as WaitingCall, outcome);
      const behind = callsThat("ask again");
      for (const call of behind) call.hasWaited = true;
      const counted = await withCounters(callsThat("add counters"));
      const settled = await withSettled(callsThat("settle calls"));
      askLater(callsThat("wait for others"));
      waiting.unshift(...counted, ...settled, ...behind);
    } catch (error) {
      for (const { answer } of calls) answer.reject(error);
    }
  }

  /** Adds the counters that calls lack. */
  async function withCounters(calls: readonly WaitingCall[]): Promise<readonly WaitingCall[]> {
    if (calls.length > 0) await addCounters(db, requestsOf(calls));
    return calls.filter(mayTryAgain);
  }

  /** Books the calls that have ended, for calls that find too much held. */
  async function withSettled(calls: readonly WaitingCall[]): Promise<readonly WaitingCall[]> {
    if (calls.length > 0) await settleEnded();
    for (const call of calls) call.rounds++;
    return calls;
  }

  /** Lets calls ask once more when other processes have booked those of theirs that have ended. */
  function askLater(calls: readonly WaitingCall[]): void {
    if (calls.length === 0) return;
    for (const call of calls) call.rounds++;
    setTimeout(() => {
      waiting.push(...calls);
      void reserveWaiting();
    }, OTHERS_SETTLE_MS);
  }

  /** Whether a call without counters may ask once more. If not, it is answered. */
  function mayTryAgain(call: WaitingCall): boolean {
    call.attempts++;
    if (call.attempts < MAX_ATTEMPTS) return true;
    call.answer.reject(unavailable("The budgets are changing. Please try again."));
    return false;
  }

  /** Answers a call. */
  function conclude({ answer, ...call }: WaitingCall, outcome: ReserveOutcome): void {
    try {
      answer.resolve(reservationOf(call, outcome));
    } catch (error) {
      answer.reject(error);
    }
  }

  /** @throws ServiceError BUDGET_EXCEEDED, MODEL_NOT_PRICED, UNAUTHENTICATED */
  function reservationOf(
    { request, periods, metrics }: Pick<WaitingCall, "request" | "periods" | "metrics">,
    { hasOwner, rules, counters, isUnpriced, granted }: ReserveOutcome,
  ): BudgetReservation | undefined {
    if (!hasOwner) throw unauthenticated();
    if (rules === 0) {
      refusals.forgetMet(needsOf(request)); // by budgets that another process has deleted
      return undefined;
    }
    if (isUnpriced) {
      refusals.forgetMet(needsOf(request)); // those that it renewed: it was not compared with them
      refusals.remember(priceNeed(request), { need: 0n, error: modelNotPriced });
      throw modelNotPriced(request.unpriced ?? request.row.model);
    }
    const now = clock.now();
    if (granted === null) {
      const exceeded = counters.filter(({ isNewlyExceeded }) => isNewlyExceeded);
      if (exceeded.length > 0) onExceeded(exceeded);
      throw refuse(request, counters, periods, now, metrics);
    }
    refusals.forgetMet(needsOf(request));
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
     * @param prompts for each model that the call may go to. Under a budget of money, all of them
     * need a price
     * @param signal fires when the caller has disconnected: a call that still waits then reserves
     * nothing
     * @returns undefined if no budget limits the call. Then nothing is written
     * @throws ServiceError BUDGET_EXCEEDED, MODEL_NOT_PRICED, UNAUTHENTICATED, UNAVAILABLE; the
     * reason of the signal
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
        const answer = Promise.withResolvers<BudgetReservation | undefined>();
        const call = { request, periods, metrics, signal, answer, attempts: 0, rounds: 0 };
        waiting.push({ ...call, hasWaited: isReserving, renewsRefusal: false });
        void reserveWaiting();
        return await answer.promise;
      } finally {
        metrics.budgetReserveSeconds.observe((performance.now() - startedAt) / 1000);
      }
    },
    /**
     * Finds out whether a call is refused before its body is read: a budget of the caller was used
     * up a moment ago, and no call fits in what is left of it.
     * @returns creates the error, and counts it
     */
    refusalOf(
      { userId, keyId }: Pick<KeyReference, "userId" | "keyId">,
      metrics: Metrics,
    ): (() => ServiceError) | undefined {
      const refusal = refusals.findForAll(["", userId, keyId]);
      const scope = refusal?.scope;
      if (!scope) return undefined;
      return () => {
        metrics.budgetRefusals.inc({ scope });
        return refusal.error("");
      };
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

const requestsOf = (calls: readonly WaitingCall[]) => calls.map(({ request }) => request);

/**
 * What follows for a call. It asks again if calls before it may have taken what it needs. If only
 * calls in progress are in the way, it asks twice more: some may have ended, such as the one before
 * in the same conversation, and wait to be booked in this process or in another one.
 */
type NextStep = "answer" | "add counters" | "settle calls" | "wait for others" | "ask again";

function nextStepAfter({ request, rounds }: WaitingCall, outcome: ReserveOutcome): NextStep {
  const { rules, counters, isUnpriced, isBehind, granted } = outcome;
  if (isUnpriced) return "answer";
  if (counters.length < rules) return "add counters";
  if (isBehind && granted === null) return "ask again";
  if (!isHeld(outcome, request.least)) return "answer";
  return (["settle calls", "wait for others"] as const)[rounds] ?? "answer";
}

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
 * What a call needs: at least so much of the counters that may limit it, by subject and unit;
 * without a price, no budget of money.
 */
function needsOf(request: GateRequest): Need[] {
  const { row, inputTokens, least } = request;
  const cost = costOfNeed(request, least);
  const subjects = ["", row.user_id, row.api_key_id].filter((subject) => subject !== null);
  const needs = subjects.flatMap((subject) => [
    { of: counterOf({ subject, unit: "tokens" }), need: BigInt(inputTokens + least) },
    ...(cost === null ? [] : [{ of: counterOf({ subject, unit: "cost" }), need: cost }]),
  ]);
  return cost === null ? [{ of: priceNeed(request), need: 0n }, ...needs] : needs;
}

/** What a call without a price needs of its user and API key: that no budget limits its cost. */
const priceNeed = ({ row }: GateRequest) => `${row.user_id} ${row.api_key_id} price`;
