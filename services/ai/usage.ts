import type { Logger } from "pino";
import { createBatch } from "../platform/process/batch.ts";
import type { Clock } from "../platform/process/clock.ts";
import { newId } from "../store/ids.ts";
import type { HotDb } from "../store/statement.ts";
import { type UsageRow, upsertUsage } from "../store/usage.ts";
import type { ProviderErrorKind } from "./providers/errors.ts";
import type { ReplyEvent, Usage } from "./providers/provider.ts";

/** How a call ended. */
export type UsageOutcome = "completed" | "cancelled" | "failed" | ProviderErrorKind;

/** What is known of a call when it starts. */
type UsageStart = {
  userId: string;
  /** Undefined unless the call was made with an API key. */
  apiKeyId?: string | undefined;
  provider: string;
  model: string;
  inputCharacters: number;
};

/** Interval between updates of the row of a long reply, in ms. A crash loses no more than that. */
const PROGRESS_INTERVAL_MS = 5_000;

/** Estimated length of a token in characters, for replies without reported usage. */
const CHARACTERS_PER_TOKEN = 4;

/** Failures before the provider has read the input, which cost nothing. */
const INPUT_UNREAD: ReadonlySet<UsageOutcome> = new Set([
  "rate limited",
  "quota exhausted",
  "overloaded",
  "internal error",
  "refused the key",
  "rejected the request",
  "unreachable",
]);

const tokensIn = (characters: number) => Math.ceil(characters / CHARACTERS_PER_TOKEN);

/**
 * Opens the ledger. The row of a call is written when the call starts, so that it survives a crash,
 * and again when the call ends.
 */
export function openUsageLedger(db: HotDb, clock: Clock, log: Logger) {
  const batch = createBatch<UsageRow>({
    name: "AI usage",
    intervalMs: 20, // shorter calls are written once
    batchSize: 20_000,
    write: (rows) => upsertUsage(db, rows),
    log,
  });
  return {
    /** Resolves when everything recorded so far has been written, or the attempt has failed. */
    flush: batch.flush,
    /** Opens the row of a call. */
    start({ userId, apiKeyId, provider, model, inputCharacters }: UsageStart) {
      const startedAt = performance.now();
      const elapsed = () => Math.round(performance.now() - startedAt);
      const now = clock.now();
      const row: UsageRow = {
        id: newId(now),
        user_id: userId,
        api_key_id: apiKeyId ?? null,
        alias: null,
        provider,
        model,
        outcome: "running",
        input_tokens: tokensIn(inputCharacters),
        output_tokens: 0,
        cached_input_tokens: null,
        cache_write_tokens: null,
        reasoning_tokens: null,
        estimated: true,
        attempts: null,
        cost_nanos: null,
        latency_ms: null,
        first_chunk_ms: null,
        created_at: now,
      };
      let characters = 0;
      let writtenMs = 0;
      batch.set(row.id, row);
      const addText = (text: string) => {
        row.first_chunk_ms ??= elapsed();
        characters += text.length;
        row.output_tokens = tokensIn(characters);
        if (elapsed() - writtenMs < PROGRESS_INTERVAL_MS) return;
        writtenMs = elapsed();
        batch.set(row.id, row);
      };
      const replaceEstimate = ({ inputTokens, outputTokens }: Usage) => {
        row.input_tokens = inputTokens;
        row.output_tokens = outputTokens;
        row.estimated = false;
      };
      return {
        /** Id of the row. */
        id: row.id,
        /** Estimates usage from the pieces of the reply until the provider reports it. */
        observe(event: ReplyEvent): void {
          if (event.kind === "text" || event.kind === "reasoning") addText(event.text);
          if (event.kind === "tool-call") addText((event.name ?? "") + event.arguments);
          if (event.kind === "usage") replaceEstimate(event.usage);
        },
        /**
         * Records the outcome.
         * @returns the final row
         */
        finish(outcome: UsageOutcome): UsageRow {
          row.outcome = outcome;
          row.latency_ms = elapsed();
          const isUnread = row.estimated && characters === 0 && INPUT_UNREAD.has(outcome);
          if (isUnread) row.input_tokens = 0;
          batch.set(row.id, row);
          return row;
        },
      };
    },
  };
}
