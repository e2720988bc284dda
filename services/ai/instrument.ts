import type { Attributes } from "@opentelemetry/api";
import type { Metrics } from "../metrics.ts";
import type { Tracing } from "../platform/telemetry/tracing.ts";
import type { UsageRow } from "../store/usage.ts";
import { isEmbedding } from "./catalogue.ts";
import type { CallProgress, Prompt, ReplyEvent } from "./providers/provider.ts";

/** Nano-units in a unit of the currency. */
const NANOS = 1e9;

type InstrumentDeps = {
  metrics: Metrics;
  tracing: Tracing | undefined;
  traceparent: string | null;
  startedAt: number;
};

const labelsOf = (vendor: string, model: Prompt["model"]) => ({
  gen_ai_operation_name: operationOf(model),
  gen_ai_provider_name: vendor,
  gen_ai_request_model: model.upstream,
});

/** The operation by OpenTelemetry's semantic conventions. */
const operationOf = (model: Prompt["model"]) => (isEmbedding(model) ? "embeddings" : "chat");

/** Measures a call of a provider, and starts its span if traces are collected. */
export function instrumentCall(
  { metrics, tracing, traceparent, startedAt }: InstrumentDeps,
  vendor: string,
  { model: first, isStream }: Pick<Prompt, "model" | "isStream">,
) {
  const model = first.upstream;
  let current = first;
  /** Attributes of the span about the reply, once there is one. */
  const reply: Attributes = {};
  let labels = labelsOf(vendor, first);
  const operation = operationOf(first);
  const span = tracing?.start(`${operation} ${model}`, "CLIENT", traceparent, {
    "gen_ai.operation.name": operation,
    "gen_ai.provider.name": vendor,
    "gen_ai.request.model": model,
    "gen_ai.request.stream": isStream,
  });
  const addCost = (nanos: string | null) => {
    const { gen_ai_operation_name: _, ...ofModel } = labels;
    if (nanos !== null) metrics.cost.inc(ofModel, Number(nanos) / NANOS);
  };
  let sentAt: number | undefined;
  let decodingMs = 0;
  return {
    /** The call continues with another model and counts towards it from now on. */
    moveTo(nextVendor: string, next: Prompt["model"]): void {
      labels = labelsOf(nextVendor, next);
      current = next;
    },
    observe(event: CallProgress | ReplyEvent): void {
      if (event.kind === "answered") sentAt = event.sentAt;
      if ("decodingMs" in event) decodingMs = event.decodingMs;
      if (event.kind === "receiving" || event.kind === "embeddings")
        reply["gen_ai.response.model"] = current.upstream;
      if (event.kind === "finished") reply["gen_ai.response.finish_reasons"] = [event.reason];
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
      addCost(row.cost_nanos);
      span?.end(
        {
          ...(!estimated && usageAttributes(row)),
          "gen_ai.provider.name": labels.gen_ai_provider_name,
          ...reply,
          "gen_ai.response.time_to_first_chunk": firstChunk,
        },
        error,
      );
    },
  };
}

/** Tokens of a call as attributes of its span. Undefined ones are omitted. */
const usageAttributes = (row: UsageRow) => ({
  "gen_ai.usage.input_tokens": row.input_tokens,
  "gen_ai.usage.output_tokens": row.output_tokens,
  "gen_ai.usage.cache_read.input_tokens": row.cached_input_tokens ?? undefined,
  "gen_ai.usage.cache_creation.input_tokens": row.cache_write_tokens ?? undefined,
  "gen_ai.usage.reasoning.output_tokens": row.reasoning_tokens ?? undefined,
});
