import type { SignedInCall } from "../call.ts";
import type { UsageRow } from "../store/usage.ts";
import type { CatalogueModel, CatalogueProvider } from "./catalogue.ts";
import type { CallObserver } from "./providers/provider.ts";

/** Metrics and span of one provider call. */
export type CallInstruments = {
  observer: Pick<CallObserver, "onSent" | "onDecoded">;
  /** Called with the final usage row. */
  onFinished(row: UsageRow): void;
};

/** Where a call goes. */
export type CallTarget = { entry: CatalogueProvider; model: CatalogueModel; isStream: boolean };

export type InstrumentDeps = Pick<SignedInCall, "metrics" | "tracing" | "traceparent" | "startedAt">;

/** Starts the metrics of a provider call, and its span if traces are collected. */
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
  let isSent = false;
  let decodingMs = 0;
  return {
    observer: {
      onSent(at) {
        if (!isSent) metrics.overheadSeconds.observe({ phase: "request" }, (at - startedAt) / 1000);
        isSent = true;
      },
      onDecoded(ms) {
        decodingMs += ms;
      },
    },
    onFinished({ outcome, latency_ms, first_chunk_ms, estimated, input_tokens, output_tokens }) {
      const error = outcome === "completed" ? undefined : outcome;
      const firstChunk = isStream && first_chunk_ms !== null ? first_chunk_ms / 1000 : undefined;
      metrics.operationSeconds.observe({ ...labels, ...(error && { error_type: error }) }, (latency_ms ?? 0) / 1000);
      if (firstChunk !== undefined) metrics.firstChunkSeconds.observe(labels, firstChunk);
      if (isSent) metrics.overheadSeconds.observe({ phase: "reply" }, decodingMs / 1000);
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
