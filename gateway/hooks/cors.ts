import type { IncomingHttpHeaders } from "node:http";
import type { FastifyReply } from "fastify";

/** Browsers cache preflight responses for this time, in seconds. */
const PREFLIGHT_SECONDS = 600;
/** Methods that no route has are allowed too: the page can then read the 405, which its browser would hide. */
const METHODS = "GET, POST, PUT, PATCH, DELETE";
const EXPOSED = "x-request-id, ratelimit-limit, ratelimit-remaining, ratelimit-reset, retry-after, x-ai-ignored";

/** Pages that may call the service and read its responses. */
export type Origins = {
  /** Adds the CORS headers if the origin of the request is allowed. */
  allow(headers: IncomingHttpHeaders, reply: FastifyReply): void;
  /** Responds to a preflight request of an allowed origin. @returns false if the request is something else */
  preflight(headers: IncomingHttpHeaders, reply: FastifyReply): boolean;
  /** Whether a request comes from our own pages, from allowed ones, or from no page. */
  isOwn(headers: IncomingHttpHeaders): boolean;
};

/** Creates the rules for pages of other origins (Fetch standard, CORS protocol). */
export function createOrigins(publicUrl: string, allowed: readonly string[]): Origins {
  const others = new Set(allowed);
  const own = new Set([...allowed, new URL(publicUrl).origin]);
  return {
    allow(headers, reply) {
      if (others.size === 0) return;
      reply.header("vary", "origin");
      if (headers.origin === undefined || !others.has(headers.origin)) return;
      reply.header("access-control-allow-origin", headers.origin);
      reply.header("access-control-allow-credentials", "true");
      reply.header("access-control-expose-headers", EXPOSED);
    },
    preflight(headers, reply) {
      const { origin } = headers;
      if (origin === undefined || !others.has(origin)) return false;
      if (headers["access-control-request-method"] === undefined) return false;
      reply.header("access-control-allow-methods", METHODS);
      const requested = headers["access-control-request-headers"]; // also those of tracing and retry libraries
      if (requested !== undefined) reply.header("access-control-allow-headers", requested);
      reply.header("access-control-max-age", PREFLIGHT_SECONDS);
      reply.code(204).send();
      return true;
    },
    isOwn(headers) {
      const site = headers["sec-fetch-site"]; // no script can set it
      if (site === "cross-site") return false;
      return site === "same-origin" || headers.origin === undefined || own.has(headers.origin);
    },
  };
}
