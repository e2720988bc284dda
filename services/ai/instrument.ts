import type { Metrics } from "../metrics.ts";
import type { Tracing } from "../platform/telemetry/tracing.ts";
import type { UsageRow } from "../store/usage.ts";
import type { Prompt, ReplyEvent } from "./providers/provider.ts";

type InstrumentDeps = {
  metrics: Metrics;
  tracing: Tracing | undefined;
  traceparent: string | null;
  startedAt: number;
};

/** Measures a call of a provider, and starts its span if traces are collected. */
export function instrumentCall(
  { metrics, tracing, traceparent, startedAt }: InstrumentDeps,
  vendor: string,
  { model: { upstream: model }, isStream }: Pick<Prompt, "model" | "isStream">,
) {
  const labels = {
    gen_ai_operation_name: "chat",
    gen_ai_provider_name: vendor,
    gen_ai_request_model: model,
  };
  const span = tracing?.start(`chat ${model}`, "CLIENT", traceparent, {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": vendor,
    "gen_ai.request.model": model,
    "gen_ai.request.stream": isStream,
  });
  let sentAt: number | undefined;
  let decodingMs = 0;
  return {
    observe(event: ReplyEvent): void {
      if (event.kind === "answered") sentAt = event.sentAt;
      if ("decodingMs" in event) decodingMs = event.decodingMs;
    },
    /** @param row the final usage row of the call */
    end(row: UsageRow): void {
      const { outcome, latency_ms, first_chunk_ms, estimated, input_tokens, output_tokens } = row;
      const error = outcome === "completed" ? undefined : outcome;
      const firstChunk = isStream && first_chunk_ms !== null ? first_chunk_ms / 1000 : undefined;
      metrics.operationSeconds.observe(
        { ...labels, ...(error && { error_type: error }) },
        (latency_ms ?? 0) / 1000,
      );
      if (firstChunk !== undefined) metrics.firstChunkSeconds.observe(labels, firstChunk);
      if (sentAt !== undefined) {
        metrics.overheadSeconds.observe({ phase: "request" }, (sentAt - startedAt) / 1000);
        metrics.overheadSeconds.observe({ phase: "reply" }, decodingMs / 1000);
      }
      if (!estimated) {
        metrics.tokens.observe({ ...labels, gen_ai_token_type: "input" }, input_tokens);
        metrics.tokens.observe({ ...labels, gen_ai_token_type: "output" }, output_tokens);
      }
      const usage = {
        "gen_ai.usage.input_tokens": input_tokens,
        "gen_ai.usage.output_tokens": output_tokens,
      };
      span?.end(
        { ...(!estimated && usage), "gen_ai.response.time_to_first_chunk": firstChunk },
        error,
      );
    },
  };
}
