import type { Logger } from "pino";
import type { Clock } from "../platform/clock.ts";
import { newId } from "../store/ids.ts";
import type { Statement, Store } from "../store/store.ts";
import type { ProviderErrorKind } from "./providers/errors.ts";
import type { Usage } from "./providers/provider.ts";

/** How a call ended. */
export type UsageOutcome = "running" | "completed" | "cancelled" | "failed" | ProviderErrorKind;

/** One row of `ai_usage`, by the names of its columns. */
export type UsageRow = {
  id: string;
  user_id: string;
  provider: string;
  model: string;
  outcome: UsageOutcome;
  input_tokens: number;
  output_tokens: number;
  estimated: boolean;
  latency_ms: number | null;
  first_chunk_ms: number | null;
  created_at: Date;
};

/** One call, from its start to its end. */
export type UsageEntry = {
  /** Counts text of the reply. */
  onText(text: string): void;
  /** Replaces the estimate by what the provider reports. */
  onUsage(usage: Usage): void;
  /** Records the outcome. Only the first call counts. */
  finish(outcome: UsageOutcome): void;
};

/** The caller, the model and the size of the prompt. */
export type UsageStart = { userId: string; provider: string; model: string; inputCharacters: number };

/** Records the usage of AI calls. */
export type UsageLedger = {
  /** Opens the row of a call. The outcome is `cancelled` if the signal fires first. Calls `onFinished` once. */
  start(start: UsageStart, signal: AbortSignal, onFinished?: (row: UsageRow) => void): UsageEntry;
  /** Resolves when everything recorded so far is in the database, or the attempt to write it failed. */
  flush(): Promise<void>;
};

/** How long rows are gathered into one statement, in ms; a shorter call is written once. */
const GATHER_MS = 20;
/** A long reply's row is brought up to date that often, so that little is lost with the process. */
const PROGRESS_MS = 5_000;
/** Pause before the database is tried again. */
const RETRY_MS = 1_000;
/** Rows that wait for an absent database; older ones are given up. */
const MAX_WAITING = 20_000;
/** Estimated length of a token where the provider reports none, in characters. */
const CHARACTERS_PER_TOKEN = 4;

/** Failures in which the provider did not read the input, and does not charge for it. */
const UNREAD: ReadonlySet<UsageOutcome> = new Set([
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
 * Opens the ledger. A row is written as soon as its call has started, so that it survives the end of the process, and
 * again when the call is settled.
 */
export function openUsageLedger(store: Pick<Store, "query">, clock: Clock, log: Logger): UsageLedger {
  const waiting = new Map<string, UsageRow>();
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();
  let isFailing = false;

  function write(row: UsageRow): void {
    const [oldest] = waiting.keys();
    if (oldest !== undefined && waiting.size >= MAX_WAITING) waiting.delete(oldest);
    waiting.set(row.id, row);
    timer ??= setTimeout(flush, GATHER_MS);
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    writing = writing.then(flushWaiting);
    return writing;
  }

  async function flushWaiting(): Promise<void> {
    if (waiting.size === 0) return;
    const rows = [...waiting.values()];
    waiting.clear();
    try {
      await store.query(UPSERT, [JSON.stringify(rows)]);
      isFailing = false;
    } catch (error) {
      if (!isFailing)
        log.warn({ reason: (error as Error).message, rows: rows.length }, "usage could not be recorded yet");
      isFailing = true;
      for (const row of rows) if (!waiting.has(row.id)) waiting.set(row.id, row);
      timer ??= setTimeout(flush, RETRY_MS).unref();
    }
  }

  return {
    flush,
    start({ userId, provider, model, inputCharacters }, signal, onFinished) {
      const startedAt = performance.now();
      const elapsed = () => Math.round(performance.now() - startedAt);
      const now = clock.now();
      const row: UsageRow = {
        id: newId(now),
        user_id: userId,
        provider,
        model,
        outcome: "running",
        input_tokens: tokensIn(inputCharacters),
        output_tokens: 0,
        estimated: true,
        latency_ms: null,
        first_chunk_ms: null,
        created_at: now,
      };
      let characters = 0;
      let writtenMs = 0;
      const entry: UsageEntry = {
        onText(text) {
          row.first_chunk_ms ??= elapsed();
          characters += text.length;
          if (row.estimated) row.output_tokens = tokensIn(characters);
          if (elapsed() - writtenMs < PROGRESS_MS) return;
          writtenMs = elapsed();
          write(row);
        },
        onUsage({ inputTokens, outputTokens }) {
          Object.assign(row, { input_tokens: inputTokens, output_tokens: outputTokens, estimated: false });
        },
        finish(outcome) {
          if (row.outcome !== "running") return;
          signal.removeEventListener("abort", onClientGone);
          Object.assign(row, { outcome, latency_ms: elapsed() });
          if (row.estimated && characters === 0 && UNREAD.has(outcome)) row.input_tokens = 0;
          write(row);
          onFinished?.(row);
        },
      };
      const onClientGone = () => entry.finish("cancelled");
      signal.addEventListener("abort", onClientGone);
      write(row);
      return entry;
    },
  };
}

/**
 * The user may have been erased meanwhile; what the call cost stays. An erasure under way is waited for before any row
 * is touched, since it waits for the rows.
 */
const UPSERT: Statement = {
  name: "record_usage",
  text: `
  with told as (
    select * from jsonb_to_recordset($1::jsonb) as t (id uuid, user_id uuid, provider text, model text, outcome text,
      input_tokens int, output_tokens int, estimated boolean, latency_ms int, first_chunk_ms int,
      created_at timestamptz)),
  owners as (select id from users where id in (select user_id from told) for key share)
  insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, output_tokens, estimated, latency_ms,
                        first_chunk_ms, created_at)
  select told.id, owners.id, told.provider, told.model, told.outcome, told.input_tokens, told.output_tokens,
         told.estimated, told.latency_ms, told.first_chunk_ms, told.created_at
  from told left join owners on owners.id = told.user_id
  on conflict (id) do update set
    outcome = excluded.outcome, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    estimated = excluded.estimated, latency_ms = excluded.latency_ms, first_chunk_ms = excluded.first_chunk_ms`,
};
