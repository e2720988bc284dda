import type { FastifyInstance, FastifyRequest } from "fastify";
import { CLIENT_CLOSED_REQUEST } from "../services/platform/errors.ts";
import type { Tracing } from "../services/platform/tracing.ts";

/** Starts the span of a request, as a child of the span in its `traceparent` header. */
export type StartSpan = Tracing["start"];

/** Creates one span per request, named by its route. @returns the `traceparent` header of a request's span */
export function traceRequests(app: FastifyInstance, start: StartSpan): (request: FastifyRequest) => string | undefined {
  const spans = new WeakMap<FastifyRequest, string>();
  app.addHook("onRequest", (request, { raw }, done) => {
    const { method, headers, routeOptions } = request;
    const parent = typeof headers.traceparent === "string" ? headers.traceparent : undefined;
    const attributes = { "http.request.method": method, ...(routeOptions.url && { "http.route": routeOptions.url }) };
    const span = start([method, routeOptions.url].filter(Boolean).join(" "), "SERVER", parent, attributes);
    spans.set(request, span.traceparent);
    raw.once("close", () => {
      const status = raw.headersSent ? raw.statusCode : CLIENT_CLOSED_REQUEST;
      span.end({ "http.response.status_code": status }, status >= 500 ? String(status) : undefined);
    });
    done();
  });
  return (request) => spans.get(request);
}
