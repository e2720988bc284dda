import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../../platform/rpc/errors.ts";
import { BUDGET_LIMIT, BUDGET_REMAINING, BUDGET_RESET } from "../../platform/rpc/metadata.ts";
import type { BudgetCounter } from "../../store/budgets.ts";
import { amountInWords, amountText } from "./amounts.ts";
import type { Periods } from "./periods.ts";

/** `Retry-After` while the rest is reserved for calls in progress, in seconds. */
const HELD_RETRY_SECONDS = 5;

/** The minimum that a call needs of a counter. */
export const needOf = ({ input, perOutput }: BudgetCounter, least: number): bigint =>
  input + perOutput * BigInt(least);

/** What is left of a counter. */
export const remainingOf = ({ limit, used, reserved }: BudgetCounter): bigint => {
  const remaining = limit - used - reserved;
  return remaining > 0n ? remaining : 0n;
};

/** A time as text, with a precision of one second. */
export const secondOf = (time: Date): string => time.toISOString().replace(/\.\d+Z$/, "Z");

const secondsUntil = (time: Date, now: Date) =>
  Math.max(1, Math.ceil((time.getTime() - now.getTime()) / 1000));

/** Whether a budget is the caller's own, so that its figures may be shown to the caller. */
const isOwn = ({ scope }: BudgetCounter) => scope !== "deployment";

/** The headers about the caller's budget with the smallest remaining share; none without one. */
export function budgetHeaders(
  counters: readonly BudgetCounter[],
  { endsAt }: Pick<Periods, "endsAt">,
  now: Date,
): [name: string, value: string][] {
  const [tightest] = counters.filter(isOwn).sort((a, b) => shareLeft(a) - shareLeft(b));
  if (!tightest) return [];
  const { limit, unit, period } = tightest;
  return [
    [BUDGET_LIMIT, amountText(limit, unit)],
    [BUDGET_REMAINING, amountText(remainingOf(tightest), unit)],
    [BUDGET_RESET, String(secondsUntil(endsAt[period], now))],
  ];
}

const shareLeft = (counter: BudgetCounter) =>
  counter.limit === 0n ? 0 : Number(remainingOf(counter)) / Number(counter.limit);

/**
 * The error of a call that a budget does not allow.
 * @param refusing the counter with too little left
 * @param counters all counters of the call
 */
export function budgetExceeded(
  refusing: BudgetCounter,
  counters: readonly BudgetCounter[],
  least: number,
  { periods, now, currency }: { periods: Periods; now: Date; currency: string },
): ServiceError {
  const endsAt = periods.endsAt[refusing.period];
  const cause = causeOf(refusing, needOf(refusing, least));
  const untilReset = secondsUntil(endsAt, now);
  const waits: Record<Cause, number | undefined> = {
    held: HELD_RETRY_SECONDS,
    "used up": untilReset,
    "too little left": untilReset,
    "too small": undefined,
  };
  const message = messageOf(cause, refusing, secondOf(endsAt), currency);
  const error = new ServiceError(Reason.BUDGET_EXCEEDED, message, {
    retryAfterSeconds: waits[cause],
  });
  error.headers.push(...budgetHeaders(counters, periods, now));
  return error;
}

/**
 * Why a budget refuses a call: other calls have reserved what it needs; nothing is left; too little
 * is left; it needs more than the whole budget.
 */
type Cause = "held" | "used up" | "too little left" | "too small";

function causeOf({ limit, used }: BudgetCounter, needed: bigint): Cause {
  if (limit - used >= needed) return "held";
  if (used >= limit) return "used up";
  return needed > limit ? "too small" : "too little left";
}

function messageOf(cause: Cause, counter: BudgetCounter, until: string, currency: string): string {
  const { limit, used, unit } = counter;
  const words = (amount: bigint) => amountInWords(amount, unit, currency);
  const name = nameOf(counter, words(limit));
  const left = isOwn(counter) ? ` (${words(limit - used)})` : "";
  const texts: Record<Cause, string> = {
    held: `${name} is used up, or reserved for calls in progress. Please try again in a moment.`,
    "used up": `${name} is used up until ${until}.`,
    "too little left": `${name} is not enough for this call until ${until}: the call may use more than what is left${left}.`,
    "too small": `${name} is smaller than what this call may use. Please send less, or ask for a shorter reply.`,
  };
  return texts[cause];
}

const PERIODS = { day: "daily", month: "monthly" };

/** Names a budget to the caller. The figures of the deployment are not the caller's. */
function nameOf({ scope, period }: BudgetCounter, limit: string): string {
  if (scope === "deployment") return `The ${PERIODS[period]} budget of this service`;
  const whose = scope === "key" ? "The" : "Your";
  const of = scope === "key" ? " of this API key" : "";
  return `${whose} ${PERIODS[period]} budget${of} of ${limit}`;
}

/** The error of a call whose model has no price, although its cost is limited. */
export const modelNotPriced = (model: string): ServiceError =>
  new ServiceError(
    Reason.MODEL_NOT_PRICED,
    `The model ${model} has no price, but a budget limits the cost of your calls. Please use another model.`,
  );
