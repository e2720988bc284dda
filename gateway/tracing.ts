import type { FastifyInstance, FastifyRequest } from "fastify";

type Attributes = Record<string, string | number>;
/** Begins a span of a request, beneath the one that its header names. */
export type StartSpan = (
  name: string,
  kind: "SERVER",
  parent: string | undefined,
  attributes: Attributes,
) => { traceparent: string; end(attributes: Attributes, error?: string): void };

/** Status of a request whose client went away before its answer. */
const CLIENT_GONE = 499;

/** One span per request, named by its route. @returns what tells the header that joins a call to its request's span */
export function traceRequests(app: FastifyInstance, start: StartSpan): (request: FastifyRequest) => string | undefined {
  const spans = new WeakMap<FastifyRequest, string>();
  app.addHook("onRequest", (request, { raw }, done) => {
    const { method, headers, routeOptions } = request;
    const parent = typeof headers.traceparent === "string" ? headers.traceparent : undefined;
    const attributes = { "http.request.method": method, ...(routeOptions.url && { "http.route": routeOptions.url }) };
    const span = start([method, routeOptions.url].filter(Boolean).join(" "), "SERVER", parent, attributes);
    spans.set(request, span.traceparent);
    raw.once("close", () => {
      const status = raw.headersSent ? raw.statusCode : CLIENT_GONE;
      span.end({ "http.response.status_code": status }, status >= 500 ? String(status) : undefined);
    });
    done();
  });
  return (request) => spans.get(request);
}
