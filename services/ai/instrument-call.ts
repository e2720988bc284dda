import type { SignedInCall } from "../call.ts";
import type { CatalogueModel, CatalogueProvider } from "./catalogue.ts";
import type { CallTimings } from "./providers/provider.ts";
import type { UsageRow } from "./usage.ts";

/** Measures one provider call. */
export type CallInstruments = {
  timings: CallTimings;
  /** Takes the call's settled usage row. */
  settled(row: UsageRow): void;
};

/** Whom a call goes to. */
export type CallTarget = { entry: CatalogueProvider; model: CatalogueModel; isStream: boolean };

/** What measuring needs. */
export type InstrumentDeps = Pick<SignedInCall, "metrics" | "tracing" | "traceparent" | "startedAt">;

/** Begins to measure a provider call, and its span where traces are collected. */
export function instrumentCall(
  call: InstrumentDeps,
  { entry: { vendor }, model: { upstream: model }, isStream }: CallTarget,
): CallInstruments {
  const { metrics, tracing, traceparent, startedAt } = call;
  const labels = { gen_ai_operation_name: "chat", gen_ai_provider_name: vendor, gen_ai_request_model: model };
  const span = tracing?.start(`chat ${model}`, "CLIENT", traceparent, {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": vendor,
    "gen_ai.request.model": model,
    "gen_ai.request.stream": isStream,
  });
  let hasLeft = false;
  let workedMs = 0;
  return {
    timings: {
      sent(at) {
        if (!hasLeft) metrics.overheadSeconds.observe({ phase: "request" }, (at - startedAt) / 1000);
        hasLeft = true;
      },
      worked(ms) {
        workedMs += ms;
      },
    },
    settled({ outcome, latency_ms, first_chunk_ms, estimated, input_tokens, output_tokens }) {
      const error = outcome === "completed" ? undefined : outcome;
      const firstChunk = isStream && first_chunk_ms !== null ? first_chunk_ms / 1000 : undefined;
      metrics.operationSeconds.observe({ ...labels, ...(error && { error_type: error }) }, (latency_ms ?? 0) / 1000);
      if (firstChunk !== undefined) metrics.firstChunkSeconds.observe(labels, firstChunk);
      if (hasLeft) metrics.overheadSeconds.observe({ phase: "reply" }, workedMs / 1000);
      if (!estimated) {
        metrics.tokens.observe({ ...labels, gen_ai_token_type: "input" }, input_tokens);
        metrics.tokens.observe({ ...labels, gen_ai_token_type: "output" }, output_tokens);
      }
      const usage = { "gen_ai.usage.input_tokens": input_tokens, "gen_ai.usage.output_tokens": output_tokens };
      const first = firstChunk !== undefined && { "gen_ai.response.time_to_first_chunk": firstChunk };
      span?.end({ ...(!estimated && usage), ...first }, error);
    },
  };
}
