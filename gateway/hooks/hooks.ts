import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { CLIENT_CLOSED_REQUEST, ServiceError, shuttingDown } from "../../services/platform/errors.ts";
import { isHealthPath } from "../health.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { RequestMetrics } from "../metrics.ts";
import type { Origins } from "./cors.ts";

/** What every request meets before its route. */
export type EdgeOptions = {
  log: Logger;
  origins: Origins;
  /** What `commonHeaders` gives. */
  headers: Record<string, string>;
  lifecycle: Pick<Lifecycle, "phase" | "enter" | "leave">;
  metrics: Pick<RequestMetrics, "began" | "ended">;
};

/** An unfinished body is still read for this long, in milliseconds, so that its sender gets to see the answer. */
const LINGER_MS = 2_000;

const HEADERS = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};
const SECURE_HEADERS = { ...HEADERS, "strict-transport-security": "max-age=31536000; includeSubDomains" };

/**
 * Headers of every answer of the API; pages replace the content security policy by their own.
 * @param secure whether clients reach the gateway by https
 */
export const commonHeaders = (secure: boolean): Record<string, string> => (secure ? SECURE_HEADERS : HEADERS);

/** The methods that an address takes; none where there is nothing. */
export type MethodsOf = (url: string) => string[];

/**
 * Adds the hooks that every request passes: log line, common headers, CORS, unknown routes, draining.
 * @returns what is known of the routes that are added from now on
 */
export function addEdge(app: FastifyInstance, edge: EdgeOptions): MethodsOf {
  const { origins, lifecycle } = edge;
  const methodsOf = knownRoutes(app);
  app.addHook("onRequest", (request, reply, done) => {
    greet(request, reply, edge);
    checkHost(request.raw);
    if (request.is404) {
      if (request.method === "OPTIONS" && origins.preflight(request.headers, reply)) return;
      const methods = methodsOf(request.raw.url ?? "");
      if (methods.length > 0) reply.header("allow", methods.join(", "));
      throw noRoute(methods);
    }
    if (lifecycle.phase() === "draining" && !isHealthPath(request.raw.url ?? "")) {
      reply.header("connection", "close");
      throw shuttingDown();
    }
    done();
  });
  return methodsOf;
}

/** Why no route takes a request to an address that takes these methods. */
export function noRoute(methods: string[]): ServiceError {
  if (methods.length === 0) return new ServiceError(Reason.NOT_FOUND, "There is nothing at this address.");
  return new ServiceError(Reason.METHOD_NOT_ALLOWED, `This address takes ${methods.join(", ")}.`);
}

/** What every answer has, however early it is given: common headers, CORS, its measure and a log line. */
export function greet(request: FastifyRequest, reply: FastifyReply, edge: EdgeOptions): void {
  const { origins, headers } = edge;
  follow(request, reply, edge);
  reply.headers(headers).header("x-request-id", request.id);
  origins.allow(request.headers, reply);
}

/** Follows a request to the end of its answer. One line is logged; never a body, a token, a cookie or a query value. */
function follow(request: FastifyRequest, { raw }: FastifyReply, { log, lifecycle, metrics }: EdgeOptions): void {
  const started = performance.now();
  lifecycle.enter();
  metrics.began();
  raw.on("close", () => {
    const ms = performance.now() - started;
    const { id: requestId, method } = request;
    const route = request.routeOptions.url;
    const status = raw.headersSent ? raw.statusCode : CLIENT_CLOSED_REQUEST;
    metrics.ended(method, route ?? "", status, ms);
    const clientGone = raw.writableFinished ? undefined : true;
    log.info({ requestId, method, route, status, ms: Math.round(ms * 10) / 10, clientGone });
    lifecycle.leave();
    if (!request.raw.complete) linger(request.raw);
  });
}

/** Bounds the rest of a body that was answered before its end: nobody reads it, and no limit of a route holds. */
function linger(request: IncomingMessage): void {
  if (request.socket.destroyed) return;
  const timer = setTimeout(() => request.complete || request.socket.destroy(), LINGER_MS);
  request.once("close", () => clearTimeout(timer));
  request.resume();
}

/** HTTP/1.1 wants exactly one Host header (RFC 9112 section 3.2); with two, a proxy and we might each read another. */
function checkHost({ rawHeaders, httpVersion }: IncomingMessage): void {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === "host") hosts += 1;
  }
  if (hosts > 1 || (hosts === 0 && httpVersion !== "1.0")) {
    throw new ServiceError(Reason.MALFORMED_REQUEST, "The request must have one Host header.");
  }
}

/** Remembers the routes that are added from now on, to tell an unknown path from a known one with another method. */
function knownRoutes(app: FastifyInstance): MethodsOf {
  const known: { segments: string[]; methods: string[] }[] = [];
  app.addHook("onRoute", ({ url, method }) => {
    known.push({ segments: url.split("/"), methods: [method].flat() });
  });
  return (url) => {
    const given = segmentsOf(url);
    const fits = (segments: string[]) =>
      segments.length === given.length && segments.every((s, i) => s === given[i] || (s.startsWith(":") && given[i]));
    return known.filter(({ segments }) => fits(segments)).flatMap(({ methods }) => methods);
  };
}

/** The segments of a path, decoded each by itself as the router does; none of one that can't be decoded. */
function segmentsOf(url: string): string[] {
  try {
    return url
      .replace(/^https?:\/\/[^/?#]*|[?#].*$/gs, "") // a proxy's form has the host too (RFC 9112 section 3.2.2)
      .split("/")
      .map(decodeURIComponent);
  } catch {
    return [];
  }
}
