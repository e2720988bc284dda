import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { Reason } from "../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Origins } from "./cors.ts";
import { Refused } from "./transcode/errors.ts";

/** What every request meets before its route. */
export type EdgeOptions = {
  log: Logger;
  origins: Origins;
  /** Whether clients reach the gateway by https. */
  secure: boolean;
  /** Whether new requests are refused, since the process is about to end. */
  isDraining: () => boolean;
};

const SANE_ID = /^[A-Za-z0-9._-]{1,128}$/;
const HEALTH = /^\/health(?:\/|$)/;

/** The caller's request id if it is a sane one, else a new one. */
export function requestId(request: IncomingMessage): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && SANE_ID.test(given) ? given : randomUUID();
}

/** Headers of every answer of the API; pages replace the content security policy by their own. */
export const HEADERS = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};
const SECURE_HEADERS = { ...HEADERS, "strict-transport-security": "max-age=31536000; includeSubDomains" };

/** Adds the hooks that every request passes: log line, common headers, CORS, unknown routes, draining. */
export function addEdge(app: FastifyInstance, edge: EdgeOptions): void {
  const { origins, isDraining } = edge;
  const routes = knownRoutes(app);
  app.addHook("onRequest", (request, reply, done) => {
    greet(request, reply, edge);
    checkHost(request.raw);
    if (request.is404) {
      const methods = routes.methodsOf(request.raw.url ?? "");
      if (methods.length === 0) throw new Refused(Reason.NOT_FOUND, "There is nothing at this address.");
      if (request.method === "OPTIONS" && origins.preflight(request.headers, reply, methods)) return;
      reply.header("allow", methods.join(", "));
      throw new Refused(Reason.METHOD_NOT_ALLOWED, `This address takes ${methods.join(", ")}.`);
    }
    if (isDraining() && !HEALTH.test(request.raw.url ?? "")) {
      reply.header("connection", "close");
      throw new Refused(Reason.UNAVAILABLE, "The service is shutting down. Please try again.");
    }
    done();
  });
}

/** What every answer has, however early it is given: common headers, CORS and a log line. */
export function greet(request: FastifyRequest, reply: FastifyReply, { log, origins, secure }: EdgeOptions): void {
  logWhenDone(request, reply, log);
  reply.headers(secure ? SECURE_HEADERS : HEADERS).header("x-request-id", request.id);
  origins.allow(request.headers, reply);
}

/** One line per request; never a body, a token, a cookie or a query value. */
function logWhenDone(request: FastifyRequest, reply: FastifyReply, log: Logger): void {
  const started = performance.now();
  const { raw } = reply;
  raw.on("close", () => {
    const isComplete = raw.writableFinished;
    log.info({
      requestId: request.id,
      method: request.method,
      route: request.routeOptions.url,
      status: raw.headersSent ? raw.statusCode : 499,
      ms: Math.round((performance.now() - started) * 10) / 10,
      ...(isComplete ? {} : { clientGone: true }),
    });
  });
}

/** HTTP/1.1 wants exactly one Host header (RFC 9112 section 3.2); with two, a proxy and we might each read another. */
function checkHost({ rawHeaders, httpVersion }: IncomingMessage): void {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === "host") hosts += 1;
  }
  if (hosts > 1 || (hosts === 0 && httpVersion === "1.1")) {
    throw new Refused(Reason.MALFORMED_REQUEST, "The request must have one Host header.");
  }
}

/** Remembers the routes that are added from now on, to tell an unknown path from a known one with another method. */
function knownRoutes(app: FastifyInstance): { methodsOf: (url: string) => string[] } {
  const known: { segments: string[]; methods: string[] }[] = [];
  app.addHook("onRoute", ({ url, method }) => {
    known.push({ segments: url.split("/"), methods: [method].flat() });
  });
  return {
    methodsOf(url) {
      const given = url.replace(/[?#].*$/s, "").split("/");
      const fits = (segments: string[]) =>
        segments.length === given.length && segments.every((s, i) => s === given[i] || (s.startsWith(":") && given[i]));
      return known.filter(({ segments }) => fits(segments)).flatMap(({ methods }) => methods);
    },
  };
}
