import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as wait } from "node:timers/promises";
import type { Attributes, SpanContext, SpanKind } from "@opentelemetry/api";

/**
 * Called when an SQL statement has ended.
 * @param text the statement, without values
 * @param ms its duration
 */
export type OnStatement = (text: string, ms: number, failed: boolean) => void;

/**
 * Exports spans to a collector. Attributes name methods, routes and models, never users or content.
 */
export type Tracing = NonNullable<Awaited<ReturnType<typeof openTracing>>>;

/** Maximum time for the last export, in ms. */
const CLOSE_MS = 2_000;
/** W3C Trace Context, version 00. */
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/**
 * Exports spans with OTLP over HTTP. Loads nothing without an endpoint. OTEL_SERVICE_NAME overrides
 * `service`.
 */
export async function openTracing(endpoint: string | undefined, service: string) {
  if (endpoint === undefined) return undefined;
  const [{ ROOT_CONTEXT, SpanKind, SpanStatusCode, trace }, sdk, { OTLPTraceExporter }, resources] =
    await Promise.all([
      import("@opentelemetry/api"),
      import("@opentelemetry/sdk-trace"),
      import("@opentelemetry/exporter-trace-otlp-http"),
      import("@opentelemetry/resources"),
    ]);
  const exporter = new OTLPTraceExporter({ url: `${endpoint}/v1/traces` });
  const provider = new sdk.TracerProvider({
    resource: resources
      .defaultResource()
      .merge(resources.resourceFromAttributes({ "service.name": service }))
      .merge(resources.detectResources({ detectors: [resources.envDetector] })),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter })],
  });
  const tracer = provider.getTracer("gatehouse");
  const parents = new AsyncLocalStorage<string>(); // the ORM does not tell which call a statement belongs to
  return {
    /**
     * Starts a span.
     * @param parent the `traceparent` header of the request, if any
     */
    start(
      name: string,
      kind: keyof typeof SpanKind,
      parent: string | null | undefined,
      attributes: Attributes,
    ) {
      const remote = contextOf(parent);
      const context = remote ? trace.setSpanContext(ROOT_CONTEXT, remote) : ROOT_CONTEXT;
      const span = tracer.startSpan(name, { kind: SpanKind[kind], attributes }, context);
      const { traceId, spanId, traceFlags } = span.spanContext();
      return {
        /** The W3C header for child spans in other processes. */
        traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`,
        /**
         * Ends the span.
         * @param error class of the failure, such as a gRPC code
         */
        end(more: Attributes, error?: string): void {
          span.setAttributes(more);
          if (error !== undefined)
            span.setAttribute("error.type", error).setStatus({ code: SpanStatusCode.ERROR });
          span.end();
        },
      };
    },
    /** Runs work whose SQL statements become child spans of this span. */
    within: <T>({ traceparent }: { traceparent: string }, work: () => T): T =>
      parents.run(traceparent, work),
    /** Records an SQL statement that has ended, if it belongs to a span. */
    addStatement(text: string, ms: number, failed: boolean): void {
      const parent = contextOf(parents.getStore());
      if (!parent) return;
      const [operation = ""] = /\w+/.exec(text) ?? [];
      const attributes = {
        "db.system.name": "postgresql",
        "db.operation.name": operation,
        "db.query.text": text,
      };
      const options = { kind: SpanKind.CLIENT, startTime: Date.now() - ms, attributes };
      const span = tracer.startSpan(operation, options, trace.setSpanContext(ROOT_CONTEXT, parent));
      if (failed) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    },
    /** Exports the remaining spans. The collector may be unreachable. */
    close: () =>
      Promise.race([
        provider.shutdown().catch(() => {}),
        wait(CLOSE_MS, undefined, { ref: false }),
      ]),
  };
}

/** The caller's span; undefined without a valid header. */
function contextOf(traceparent: string | null | undefined): SpanContext | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? "") ?? [];
  if (!traceId || !spanId) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags as string, 16) & 1, isRemote: true };
}
