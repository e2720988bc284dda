import type { Metrics } from "../metrics.ts";
import type { Dialect } from "./catalogue.ts";
import type { Stopwatch } from "./providers/provider.ts";
import type { UsageRow } from "./usage.ts";

/** What the semantic conventions for generative AI call the hosts of our dialects; others go by their public id. */
const NAMES: Partial<Record<Dialect, string>> = { openai: "openai", anthropic: "anthropic", google: "gcp.gemini" };

/** Measures one provider call. */
export type Measurement = {
  stopwatch: Stopwatch;
  /** Takes the call's settled usage row. */
  settled(row: UsageRow): void;
};

/** Whom a call goes to, by the names of the GenAI conventions, and when it reached this process (`performance.now()`). */
export type Measured = { dialect: Dialect; provider: string; model: string; isStream: boolean; startedAt: number };

/** Begins to measure a provider call. */
export function measure(metrics: Metrics, { dialect, provider, model, isStream, startedAt }: Measured): Measurement {
  const labels = {
    gen_ai_operation_name: "chat",
    gen_ai_provider_name: NAMES[dialect] ?? provider,
    gen_ai_request_model: model,
  };
  let hasLeft = false;
  let workedMs = 0;
  return {
    stopwatch: {
      sent(at) {
        if (!hasLeft) metrics.overheadSeconds.observe({ phase: "request" }, (at - startedAt) / 1000);
        hasLeft = true;
      },
      worked(ms) {
        workedMs += ms;
      },
    },
    settled({ outcome, latency_ms, first_chunk_ms, estimated, input_tokens, output_tokens }) {
      const error = outcome === "completed" ? {} : { error_type: outcome };
      metrics.operationSeconds.observe({ ...labels, ...error }, (latency_ms ?? 0) / 1000);
      if (isStream && first_chunk_ms !== null) metrics.firstChunkSeconds.observe(labels, first_chunk_ms / 1000);
      if (hasLeft) metrics.overheadSeconds.observe({ phase: "reply" }, workedMs / 1000);
      if (estimated) return;
      metrics.tokens.observe({ ...labels, gen_ai_token_type: "input" }, input_tokens);
      metrics.tokens.observe({ ...labels, gen_ai_token_type: "output" }, output_tokens);
    },
  };
}
