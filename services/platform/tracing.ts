import { setTimeout as wait } from "node:timers/promises";
import type { Attributes, SpanContext, SpanKind } from "@opentelemetry/api";

/** Something that is under way and will be reported. */
export type TraceSpan = {
  /** The W3C header by which others join in. */
  traceparent: string;
  /** Reports it; `error` names a failure by its class, such as a gRPC code. */
  end(attributes: Attributes, error?: string): void;
};

/** Reports what this process does to a collector. Attributes name methods, routes and models, never a user or what was said. */
export type Tracing = {
  /** @param parent the `traceparent` header that came with it, if any */
  start(
    name: string,
    kind: keyof typeof SpanKind,
    parent: string | null | undefined,
    attributes: Attributes,
  ): TraceSpan;
  /** Sends what is still to be sent. */
  close(): Promise<void>;
};

/** How long what is still to be sent may take at the end, in ms. */
const CLOSE_MS = 2_000;
/** W3C Trace Context, version 00. */
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/**
 * Opens the way to a collector that speaks OTLP over HTTP. Without an endpoint nothing is loaded. OpenTelemetry's own
 * variables tell it of headers (OTEL_EXPORTER_OTLP_HEADERS) and of where this runs (OTEL_RESOURCE_ATTRIBUTES).
 * @param endpoint base URL of the collector
 * @param service the name under which spans are filed, unless OTEL_SERVICE_NAME has another
 */
export async function openTracing(endpoint: string | undefined, service: string): Promise<Tracing | undefined> {
  if (endpoint === undefined) return undefined;
  const [{ ROOT_CONTEXT, SpanKind, SpanStatusCode, trace }, sdk, { OTLPTraceExporter }, resources] = await Promise.all([
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
  return {
    start(name, kind, parent, attributes) {
      const remote = contextOf(parent);
      const context = remote ? trace.setSpanContext(ROOT_CONTEXT, remote) : ROOT_CONTEXT;
      const span = tracer.startSpan(name, { kind: SpanKind[kind], attributes }, context);
      const { traceId, spanId, traceFlags } = span.spanContext();
      return {
        traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`,
        end(more, error) {
          span.setAttributes(more);
          if (error !== undefined) span.setAttribute("error.type", error).setStatus({ code: SpanStatusCode.ERROR });
          span.end();
        },
      };
    },
    // the collector may be away or busy; nobody waits long for it
    close: () => Promise.race([provider.shutdown().catch(() => {}), wait(CLOSE_MS, undefined, { ref: false })]),
  };
}

/** Where the caller's trace stands; undefined for none or an unreadable one. */
function contextOf(traceparent: string | null | undefined): SpanContext | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? "") ?? [];
  if (!traceId || !spanId) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags as string, 16) & 1, isRemote: true };
}
