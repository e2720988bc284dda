import type { Logger } from "pino";
import { createBatch } from "../platform/process/batch.ts";
import type { Clock } from "../platform/process/clock.ts";
import { type Crossing, settleUsage } from "../store/budgets.ts";
import { newId } from "../store/ids.ts";
import type { HotDb } from "../store/statement.ts";
import { type UsageRow, upsertUsage } from "../store/usage.ts";
import type { BudgetReservation } from "./budgets/gate.ts";
import { tokensIn } from "./estimate.ts";
import { costOf, type Price, type PricedTokens } from "./price.ts";
import { type ProviderErrorKind, UNREAD_KINDS } from "./providers/errors.ts";
import type {
  CallProgress,
  ReplyEvent,
  ReportedUsage,
  Usage,
  UsageDetails,
} from "./providers/provider.ts";

/** How a call ended. */
export type UsageOutcome = "completed" | "cancelled" | "failed" | ProviderErrorKind;

/** What is known about a call when it starts. */
type UsageStart = {
  userId: string;
  /** Undefined unless the call was made with an API key. */
  apiKeyId?: string | undefined;
  /** Undefined unless the call named an alias. */
  alias?: string | undefined;
  provider: string;
  model: string;
  /** Of the model; undefined if it is unknown. */
  price?: Price | undefined;
  /** An estimate, until the provider reports them. */
  inputTokens: number;
  /**
   * The reply arrives at its end, so nothing is known about an abandoned one: it may have been
   * written.
   */
  isOpaque?: boolean;
};

/** A row to be written. */
type RecordedRow = {
  row: UsageRow;
  /** It was written with a reservation, so it is settled. */
  isReserved: boolean;
};

/** Interval between updates of the row of a long reply, in ms. A crash loses at most that. */
const PROGRESS_INTERVAL_MS = 5_000;

/** Failures before the provider has read the input, which cost nothing. */
const INPUT_UNREAD: ReadonlySet<UsageOutcome> = UNREAD_KINDS;

/**
 * Input and output of a row by their prices.
 * @param inputTokens input without that of earlier attempts
 */
const pricedTokensOf = (
  row: Omit<UsageRow, "cost_nanos">,
  inputTokens: number,
  cacheWrite1hTokens: number,
): PricedTokens => ({
  inputTokens,
  outputTokens: row.output_tokens,
  cachedInputTokens: row.cached_input_tokens ?? 0,
  cacheWriteTokens: row.cache_write_tokens ?? 0,
  cacheWrite1hTokens,
});

function exceeds(row: UsageRow, { inputTokens, outputTokens, cost }: BudgetReservation): boolean {
  const isCostly = cost !== null && row.cost_nanos !== null && BigInt(row.cost_nanos) > cost;
  return isCostly || row.input_tokens + row.output_tokens > inputTokens + outputTokens;
}

/**
 * Opens the ledger. The row of a call is written when the call starts, so that it survives a crash,
 * and again when the call ends.
 */
export function openUsageLedger(
  db: HotDb,
  clock: Clock,
  log: Logger,
  onCrossed: (crossings: readonly Crossing[]) => void = () => {},
) {
  /** Models that have used more than the reservation of a call. */
  const loggedModels = new Set<string>();
  const batch = createBatch<RecordedRow>({
    name: "AI usage",
    intervalMs: 20, // shorter calls are written once
    batchSize: 20_000,
    async write(records) {
      const rowsOf = (isReserved: boolean) =>
        records.filter((record) => record.isReserved === isReserved).map(({ row }) => row);
      const others = rowsOf(false);
      if (others.length > 0) await upsertUsage(db, others);
      if (others.length === records.length) return;
      const crossings = await settleUsage(db, rowsOf(true), clock.now());
      if (crossings.length > 0) onCrossed(crossings);
    },
    log,
  });
  const ledger = {
    /** Resolves when everything recorded so far has been written, or the attempt has failed. */
    flush: batch.flush,
    /** Opens the row of a call that starts now. */
    start(start: UsageStart) {
      const call = ledger.prepare(start);
      call.begin();
      return call;
    },
    /** Creates the row of a call. It is not written before the call begins. */
    prepare({ userId, apiKeyId, alias, inputTokens, isOpaque = false, ...first }: UsageStart) {
      let startedAt = performance.now();
      const elapsed = () => Math.round(performance.now() - startedAt);
      const now = clock.now();
      let { provider, model, price } = first;
      const counts: Omit<UsageRow, "cost_nanos"> = {
        id: newId(now),
        user_id: userId,
        api_key_id: apiKeyId ?? null,
        alias: alias ?? null,
        provider,
        model,
        outcome: "running",
        input_tokens: inputTokens,
        output_tokens: 0,
        cached_input_tokens: null,
        cache_write_tokens: null,
        reasoning_tokens: null,
        estimated: true,
        attempts: 1,
        latency_ms: null,
        first_chunk_ms: null,
        created_at: now,
      };
      let characters = 0;
      let writtenMs = 0;
      /**
       * Prices of the failed attempts that may have been read: their input may be charged for too.
       */
      const repeated: (Price | undefined)[] = [];
      /**
       * Input of each of them and of the last attempt, once the call has ended. Until then it is
       * that of the row.
       */
      let ended: { each: number; own: number } | undefined;
      let isUnread = () => true; // until something is sent
      let cacheWrite1hTokens = 0;
      let reported: (() => ReportedUsage) | undefined;
      let reservation: BudgetReservation | undefined;
      const costNanos = (): string | null => {
        const prices = repeated.filter((each) => each !== undefined);
        if (!price || prices.length < repeated.length) return null;
        const { each, own } = ended ?? { each: counts.input_tokens, own: counts.input_tokens };
        const tokens = pricedTokensOf(counts, own, cacheWrite1hTokens);
        return String(costOf(price, tokens, { prices, inputTokens: each }));
      };
      /** The row, as known so far. A copy, whose cost fits its counts. */
      const row = (): UsageRow => ({ ...counts, cost_nanos: costNanos() });
      const record = (): UsageRow => {
        const recorded = row();
        batch.set(recorded.id, { row: recorded, isReserved: reservation !== undefined });
        return recorded;
      };
      const setDetails = (details: UsageDetails) => {
        counts.cached_input_tokens = details.cachedInputTokens;
        counts.cache_write_tokens = details.cacheWriteTokens;
        counts.reasoning_tokens = details.reasoningTokens;
        cacheWrite1hTokens = details.cacheWrite1hTokens;
      };
      /**
       * Improves the estimate with what the provider has reported so far, for an interrupted reply.
       * @returns whether it has reported the input
       */
      const addReported = (): boolean => {
        const soFar = reported?.();
        if (soFar?.inputTokens === undefined) return false;
        counts.input_tokens = soFar.inputTokens;
        counts.output_tokens = Math.max(counts.output_tokens, soFar.outputTokens ?? 0);
        setDetails(soFar);
        return true;
      };
      const addText = (text: string) => {
        counts.first_chunk_ms ??= elapsed();
        characters += text.length;
        const mostTokens = reservation?.outputTokens ?? Number.POSITIVE_INFINITY;
        counts.output_tokens = Math.min(tokensIn(characters), mostTokens);
        if (elapsed() - writtenMs < PROGRESS_INTERVAL_MS) return;
        writtenMs = elapsed();
        addReported();
        record();
      };
      const addAttempt = (mayBeRead: boolean) => {
        counts.attempts = (counts.attempts ?? 0) + 1;
        if (mayBeRead) repeated.push(price);
      };
      const replaceEstimate = ({ inputTokens, outputTokens }: Usage, details: UsageDetails) => {
        counts.input_tokens = inputTokens;
        counts.output_tokens = outputTokens;
        counts.estimated = false;
        setDetails(details);
      };
      return {
        /** Id of the row. */
        id: counts.id,
        /** The call continues with another model and counts towards it from now on. */
        moveTo(to: Pick<UsageStart, "provider" | "model" | "price" | "inputTokens">): void {
          ({ provider, model, price, inputTokens: counts.input_tokens } = to);
          counts.provider = provider;
          counts.model = model;
          if (!reservation) record();
        },
        row,
        /**
         * Begins the call.
         * @param given has written the row with a reservation
         */
        begin(given?: BudgetReservation): void {
          startedAt = performance.now();
          reservation = given;
          if (!given) record();
        },
        /** Estimates usage from the pieces of the reply until the provider reports it. */
        observe(event: CallProgress | ReplyEvent): void {
          switch (event.kind) {
            case "text":
            case "reasoning":
              addText(event.text);
              break;
            case "tool-call":
              addText((event.name ?? "") + event.arguments);
              break;
            case "usage":
              replaceEstimate(event.usage, event.details);
              break;
            case "sending":
              isUnread = event.isUnread;
              break;
            case "receiving":
              reported = event.reported;
              break;
            case "retrying":
              addAttempt(event.mayBeRead);
          }
        },
        /**
         * Records the outcome.
         * @returns the final row
         */
        finish(outcome: UsageOutcome): UsageRow {
          counts.outcome = outcome;
          counts.latency_ms = elapsed();
          const isEstimate = counts.estimated && !addReported();
          const isFree =
            isEstimate && characters === 0 && (isUnread() || INPUT_UNREAD.has(outcome));
          const each = counts.input_tokens;
          ended = { each, own: isFree ? 0 : each };
          counts.input_tokens = repeated.length * each + ended.own;
          if (isOpaque && reservation && isEstimate && !isFree)
            counts.output_tokens = reservation.outputTokens;
          if (repeated.length > 0) counts.estimated = true;
          return record();
        },
        /**
         * Whether the call has used more than its reservation. Logs the first such call of a model.
         */
        exceedsReservation(): boolean {
          if (!reservation || !exceeds(row(), reservation)) return false;
          const name = `${provider}/${model}`;
          if (!loggedModels.has(name))
            log.error({ provider, model }, "a call has used more than its budget reservation");
          loggedModels.add(name);
          return true;
        },
      };
    },
  };
  return ledger;
}
