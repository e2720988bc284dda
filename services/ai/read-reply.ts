import { ProviderFailure, Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { UserCall } from "../call.ts";
import type { Permit } from "../platform/gate/admission.ts";
import { decimalOf } from "../platform/money.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import type { UserPrincipal } from "../principal.ts";
import type { BudgetReservation } from "./budgets/gate.ts";
import { REREADS } from "./budgets/upper-bound.ts";
import type { CatalogueProvider } from "./catalogue.ts";
import type { AiContext } from "./context.ts";
import { estimatedInput } from "./estimate.ts";
import { instrumentCall } from "./instrument.ts";
import { ProviderError, type ProviderErrorKind } from "./providers/errors.ts";
import type { AnyPrompt, CallProgress, ReplyEvent } from "./providers/provider.ts";
import { mapTargets, type Targets } from "./targets.ts";
import type { UsageOutcome } from "./usage.ts";

export type ReplyDeps = Pick<UserCall, "ai" | "principal" | "signal" | "log" | "requestId"> &
  Parameters<typeof instrumentCall>[0];

/** The response to a call. */
export type Response = {
  /** Its headers, which may be set until the first output. */
  header: Headers;
  /** Accounts for the memory of the reply, unless it is unlimited. */
  memory?: Pick<Permit, "reserveBody"> | undefined;
};

/** A prompt for a model of a provider. */
export type RouteTarget = {
  entry: CatalogueProvider;
  prompt: AnyPrompt;
  /** Names of the fields of the request that have no effect there. */
  ignored?: readonly string[];
};

/** A prompt and where it goes. */
export type Route = {
  /**
   * The first one gets the call. While one fails before the first byte of its reply, the next one
   * does.
   */
  targets: Targets<RouteTarget>;
  /** Name of the alias that the caller has named. */
  alias?: string | undefined;
  /** Size of the text that the model reads. */
  characters: number;
};

/** The parts of a reply that a caller receives. */
export type ReplyView<Output> = {
  /**
   * @param call its id in the usage of the caller, and its row there
   * @param target the model that has the call
   */
  outputsOf(event: ReplyEvent, call: RecordedCall, target: RouteTarget): readonly Output[];
  /**
   * The end of a reply that a filter has interrupted, if the caller has received part of it and no
   * failure is reported.
   */
  blocked?(): Output | undefined;
};

/**
 * Checks that the provider of a catalogue entry has a key.
 * @throws ServiceError PROVIDER_NOT_CONFIGURED
 */
export function requireProvider({ providers }: AiContext, entry: CatalogueProvider): void {
  if (providers.byId.has(entry.id)) return;
  const message = `The AI provider ${entry.id} is not configured: ${entry.activatedBy} is missing.`;
  throw new ServiceError(Reason.PROVIDER_NOT_CONFIGURED, message);
}

/**
 * Reads a reply. The ledger and the metrics observe every event, and usage is recorded however the
 * reply ends.
 * @throws ServiceError PROVIDER_ERROR, BUDGET_EXCEEDED, MODEL_NOT_PRICED, UNAVAILABLE;
 * UNAUTHENTICATED when the session or the API key of a stream ends
 */
export async function* readReply<Output>(
  call: ReplyDeps,
  route: Route,
  response: Response,
  view: ReplyView<Output>,
): AsyncGenerator<Output, void> {
  const { ai, principal } = call;
  const { targets, usage, reservation } = await admit(call, route, response);
  const [{ entry, prompt }] = targets;
  let current: RouteTarget = targets[0];
  // A reply that is not streamed may outlive the session or the key.
  const watched = prompt.isStream ? ai.credentials.watch(principal, call.signal) : undefined;
  const signal = watched?.signal ?? call.signal;
  usage.begin(reservation);
  const measurement = instrumentCall(call, entry.vendor, prompt);
  let outcome: UsageOutcome = "cancelled"; // if the client disconnects
  const reserve = (bytes: number) => reserveReply(response, bytes);
  const onProgress = (progress: CallProgress) => {
    usage.observe(progress);
    measurement.observe(progress);
    current = follow(progress, { ...route, targets }, current, { usage, measurement });
  };
  const sent = mapTargets(targets, (to) => ({
    provider: to.entry.id,
    prompt: limitedBy(to.prompt, reservation),
  }));
  try {
    for await (const event of ai.providers.reply(sent, signal, { reserve, onProgress })) {
      usage.observe(event);
      measurement.observe(event);
      for (const output of view.outputsOf(event, usage, current)) yield output;
    }
    outcome = "completed";
  } catch (thrown) {
    if (signal.aborted) throw thrown;
    outcome = thrown instanceof ProviderError ? thrown.kind : "failed";
    const failure = failureOf(thrown, call, current.entry);
    moveHeaders(reservation, response, failure);
    const end = outcome === "blocked the content" ? view.blocked?.() : undefined;
    if (end === undefined) throw failure;
    yield end;
  } finally {
    watched?.end();
    measurement.end(usage.finish(outcome));
    countOvershoot(call, usage);
  }
}

/** A call that may begin: its target, its usage, and its reservation if a budget limits it. */
type Admitted = {
  targets: Route["targets"];
  usage: UsageOfCall;
  reservation: BudgetReservation | undefined;
};

/**
 * Reserves the maximum usage of a call in its budgets, and shows the caller what is left. If one of
 * them limits its cost, models without a price are skipped.
 * @throws ServiceError BUDGET_EXCEEDED, MODEL_NOT_PRICED, UNAUTHENTICATED, UNAVAILABLE
 */
async function admit(call: ReplyDeps, route: Route, response: Response): Promise<Admitted> {
  try {
    return await reserve(call, route, response);
  } catch (error) {
    const isUnpriced = error instanceof ServiceError && error.reason === Reason.MODEL_NOT_PRICED;
    const [first, ...others] = route.targets.filter(({ prompt }) => prompt.model.price);
    if (!isUnpriced || !first) throw error;
    return reserve(call, { ...route, targets: [first, ...others] }, response);
  }
}

async function reserve(
  { ai, principal, metrics, signal }: ReplyDeps,
  { targets, alias, characters }: Route,
  { header }: Response,
): Promise<Admitted> {
  const usage = ai.usage.prepare({
    ...payerOf(principal),
    alias,
    ...modelOf(targets[0], characters),
    isOpaque: isOpaque(targets[0].prompt),
  });
  const prompts = mapTargets(targets, ({ prompt }) => prompt);
  const reservation = await ai.budgets.reserve(usage.row(), prompts, metrics, signal);
  for (const [name, value] of reservation?.headers ?? []) header.set(name, value);
  return { targets, usage, reservation };
}

/**
 * A prompt whose reply stays within a reservation, if there is one. A complete reply is requested
 * as a stream: one that is abandoned then costs what was written of it.
 */
function limitedBy<P extends AnyPrompt>(prompt: P, reservation: BudgetReservation | undefined): P {
  if (!reservation) return prompt;
  if ("inputs" in prompt) return { ...prompt, mostRereads: REREADS };
  const limited = {
    ...prompt,
    maxTokens: reservation.outputTokens,
    // all output of a whole reply may have been written, which is held once
    mostRereads: isOpaque(prompt) ? 0 : REREADS,
  };
  if ("relay" in prompt) return limited; // what is passed on keeps its form
  return { ...limited, isStream: true, isCollected: !prompt.isStream };
}

/**
 * Moves the headers of a reservation to an error: over REST it is sent without those of the
 * response.
 */
function moveHeaders(
  reservation: BudgetReservation | undefined,
  { header }: Response,
  failure: ServiceError,
): void {
  for (const [name, value] of reservation?.headers ?? []) {
    header.delete(name);
    failure.headers.push([name, value]);
  }
}

/** Counts a call that used more than its budget reservation. */
function countOvershoot({ metrics }: ReplyDeps, usage: { exceedsReservation(): boolean }): void {
  if (usage.exceedsReservation()) metrics.budgetOvershoot.inc();
}

/** Whether nothing is known about a reply before its end. */
const isOpaque = (prompt: AnyPrompt) => "relay" in prompt && !prompt.isStream;

type UsageOfCall = ReturnType<AiContext["usage"]["prepare"]>;
/** A call as far as it is recorded. */
type RecordedCall = Pick<UsageOfCall, "id" | "row">;

/** Observers that record a call for a model. */
type Observers = {
  usage: Pick<UsageOfCall, "moveTo">;
  measurement: Pick<ReturnType<typeof instrumentCall>, "moveTo">;
};

/**
 * Notifies the observers when a call continues with another model.
 * @returns the model that has it now
 */
function follow(
  progress: CallProgress,
  { targets, characters }: Route,
  current: RouteTarget,
  { usage, measurement }: Observers,
): RouteTarget {
  const next = progress.kind === "retrying" ? targets[progress.target] : undefined;
  if (!next || next === current) return current;
  usage.moveTo(modelOf(next, characters));
  measurement.moveTo(next.entry.vendor, next.prompt.model);
  return next;
}

/**
 * The cost of a call so far: that of its row, with attempts that were repeated. Absent without a
 * price.
 */
export function costIn(call: RecordedCall): { cost?: string } {
  const { cost_nanos } = call.row();
  return cost_nanos === null ? {} : { cost: decimalOf(BigInt(cost_nanos)) };
}

/** What the caller receives when a reply begins. */
export const startedOf = (id: string, { entry, prompt, ignored = [] }: RouteTarget) => ({
  ...{ id, provider: entry.id, model: prompt.model.name },
  ignored: [...ignored],
});

/**
 * The model that a call counts towards, and its input until the provider reports it.
 * @param characters of the text that the model reads
 */
const modelOf = ({ entry, prompt }: RouteTarget, characters: number) => ({
  provider: entry.id,
  model: prompt.model.name,
  price: prompt.model.price,
  inputTokens: estimatedInput(prompt, characters),
});

/** Who pays for a call. Under impersonation it is the administrator. */
const payerOf = (principal: UserPrincipal) => ({
  userId: principal.actorId ?? principal.user.id,
  apiKeyId: principal.kind === "api-key" ? principal.key.id : undefined,
});

/** @throws ProviderError if there is not enough memory left for the reply */
function reserveReply({ memory }: Response, bytes: number): void {
  try {
    memory?.reserveBody(bytes, "reply");
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ProviderError("reply too large", { detail: "no memory left" });
  }
}

/**
 * Logs a failure of the provider.
 * @returns what the caller is told
 * @throws any other error
 */
export function failureOf(
  thrown: unknown,
  { log, requestId }: Pick<ReplyDeps, "log" | "requestId">,
  { id }: CatalogueProvider,
): ServiceError {
  if (!(thrown instanceof ProviderError)) throw thrown;
  const { kind, facts } = thrown;
  const message = `The AI provider ${id} failed: ${kind}.`;
  log.warn({ requestId, detail: facts.detail }, message);
  const providerFailure = facts.isPromptTooLong
    ? ProviderFailure.PROMPT_TOO_LONG
    : (FAILURES[kind] ?? ProviderFailure.OTHER);
  return new ServiceError(Reason.PROVIDER_ERROR, message, { providerFailure });
}

const FAILURES: { [kind in ProviderErrorKind]?: ProviderFailure } = {
  "rejected the request": ProviderFailure.REJECTED,
  "blocked the content": ProviderFailure.BLOCKED,
  "rate limited": ProviderFailure.RATE_LIMITED,
  overloaded: ProviderFailure.OVERLOADED,
  "timed out": ProviderFailure.TIMED_OUT,
  "refused the key": ProviderFailure.ACCOUNT_REFUSED,
  "quota exhausted": ProviderFailure.ACCOUNT_REFUSED,
};
