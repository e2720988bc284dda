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

/** Interval between updates of the row of a long reply, in ms. A crash loses at most that. */
const PROGRESS_INTERVAL_MS = 5_000;

/** Failures before the provider has read the input, which cost nothing. */
const INPUT_UNREAD: ReadonlySet<UsageOutcome> = UNREAD_KINDS;

/**
 * Input and output of a row by their prices.
 * @param inputTokens input without that of earlier attempts
 */
const pricedTokensOf = (
  row: UsageRow,
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
  /** Rows that were written with a reservation. They are settled, and not written again. */
  const reserved = new WeakSet<UsageRow>();
  /** Models that have used more than the reservation of a call. */
  const loggedModels = new Set<string>();
  const batch = createBatch<UsageRow>({
    name: "AI usage",
    intervalMs: 20, // shorter calls are written once
    batchSize: 20_000,
    async write(rows) {
      const others = rows.filter((row) => !reserved.has(row));
      if (others.length > 0) await upsertUsage(db, others);
      if (others.length === rows.length) return;
      const due = rows.filter((row) => reserved.has(row));
      const crossings = await settleUsage(db, due, clock.now());
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
      const row: UsageRow = {
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
        /** Computed whenever it is read, so that it always fits the counts. */
        get cost_nanos() {
          const prices = repeated.filter((each) => each !== undefined);
          if (!price || prices.length < repeated.length) return null;
          const { each, own } = ended ?? { each: row.input_tokens, own: row.input_tokens };
          const tokens = pricedTokensOf(row, own, cacheWrite1hTokens);
          return String(costOf(price, tokens, { prices, inputTokens: each }));
        },
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
      const setDetails = (details: UsageDetails) => {
        row.cached_input_tokens = details.cachedInputTokens;
        row.cache_write_tokens = details.cacheWriteTokens;
        row.reasoning_tokens = details.reasoningTokens;
        cacheWrite1hTokens = details.cacheWrite1hTokens;
      };
      /**
       * Improves the estimate with what the provider has reported so far, for an interrupted reply.
       * @returns whether it has reported the input
       */
      const addReported = (): boolean => {
        const soFar = reported?.();
        if (soFar?.inputTokens === undefined) return false;
        row.input_tokens = soFar.inputTokens;
        row.output_tokens = Math.max(row.output_tokens, soFar.outputTokens ?? 0);
        setDetails(soFar);
        return true;
      };
      const addText = (text: string) => {
        row.first_chunk_ms ??= elapsed();
        characters += text.length;
        const mostTokens = reservation?.outputTokens ?? Number.POSITIVE_INFINITY;
        row.output_tokens = Math.min(tokensIn(characters), mostTokens);
        if (elapsed() - writtenMs < PROGRESS_INTERVAL_MS) return;
        writtenMs = elapsed();
        addReported();
        batch.set(row.id, row);
      };
      const addAttempt = (mayBeRead: boolean) => {
        row.attempts = (row.attempts ?? 0) + 1;
        if (mayBeRead) repeated.push(price);
      };
      const replaceEstimate = ({ inputTokens, outputTokens }: Usage, details: UsageDetails) => {
        row.input_tokens = inputTokens;
        row.output_tokens = outputTokens;
        row.estimated = false;
        setDetails(details);
      };
      return {
        /** Id of the row. */
        id: row.id,
        /** The call continues with another model and counts towards it from now on. */
        moveTo(to: Pick<UsageStart, "provider" | "model" | "price" | "inputTokens">): void {
          ({ provider, model, price, inputTokens: row.input_tokens } = to);
          row.provider = provider;
          row.model = model;
          if (!reservation) batch.set(row.id, row);
        },
        /** The row, as known so far. */
        row,
        /**
         * Begins the call.
         * @param given has written the row with a reservation
         */
        begin(given?: BudgetReservation): void {
          startedAt = performance.now();
          reservation = given;
          if (given) reserved.add(row);
          else batch.set(row.id, row);
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
          row.outcome = outcome;
          row.latency_ms = elapsed();
          const isEstimate = row.estimated && !addReported();
          const isFree =
            isEstimate && characters === 0 && (isUnread() || INPUT_UNREAD.has(outcome));
          const each = row.input_tokens;
          ended = { each, own: isFree ? 0 : each };
          row.input_tokens = repeated.length * each + ended.own;
          if (isOpaque && reservation && isEstimate && !isFree)
            row.output_tokens = reservation.outputTokens;
          if (repeated.length > 0) row.estimated = true;
          batch.set(row.id, row);
          return row;
        },
        /**
         * Whether the call has used more than its reservation. Logs the first such call of a model.
         */
        exceedsReservation(): boolean {
          if (!reservation || !exceeds(row, reservation)) return false;
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
