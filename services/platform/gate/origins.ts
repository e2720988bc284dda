import type { IncomingHttpHeaders } from "node:http";
import type { FastifyReply } from "fastify";

/** How long browsers cache preflight responses, in seconds. */
const PREFLIGHT_SECONDS = 600;
/**
 * Includes methods that no route has, so that pages can read the 405, which browsers would
 * otherwise hide.
 */
const METHODS = "GET, POST, PUT, PATCH, DELETE";
/** Response headers that pages of other origins may read. */
const EXPOSED = [
  "x-request-id",
  "ratelimit-limit",
  "ratelimit-remaining",
  "ratelimit-reset",
  "retry-after",
  "x-ai-ignored",
  "x-ai-provider",
  "x-ai-model",
  "x-budget-limit",
  "x-budget-remaining",
  "x-budget-reset",
  "x-should-retry",
];

/** See {@link createOrigins}. */
export type Origins = ReturnType<typeof createOrigins>;

/**
 * Creates the rules for cross-origin requests: which pages may call the service and read its
 * responses (Fetch standard, CORS protocol).
 * @param headers additional response headers that these pages may read
 */
export function createOrigins(
  publicUrl: string,
  allowed: readonly string[],
  headers: readonly string[] = [],
) {
  const exposed = [...EXPOSED, ...headers].join(", ");
  const others = new Set(allowed);
  const own = new Set([...allowed, new URL(publicUrl).origin]);
  const isAllowed = ({ origin }: IncomingHttpHeaders) => origin !== undefined && others.has(origin);
  return {
    /** Adds the CORS headers if the origin of the request is allowed. */
    allow(headers: IncomingHttpHeaders, reply: FastifyReply): void {
      if (others.size > 0) reply.header("vary", "origin");
      if (!isAllowed(headers)) return;
      reply.header("access-control-allow-origin", headers.origin);
      reply.header("access-control-allow-credentials", "true");
      reply.header("access-control-expose-headers", exposed);
    },
    /**
     * Responds to a preflight request from an allowed origin.
     * @returns false if it is not such a request
     */
    preflight(headers: IncomingHttpHeaders, reply: FastifyReply): boolean {
      if (!isAllowed(headers) || headers["access-control-request-method"] === undefined)
        return false;
      reply.header("access-control-allow-methods", METHODS);
      const requested = headers["access-control-request-headers"]; // any header is allowed, including those of tracing and retry libraries
      if (requested !== undefined) reply.header("access-control-allow-headers", requested);
      reply.header("access-control-max-age", PREFLIGHT_SECONDS);
      reply.code(204).send();
      return true;
    },
    /**
     * Whether a request comes from our own pages, from allowed origins, or not from a page at all.
     */
    isOwn(headers: IncomingHttpHeaders): boolean {
      const site = headers["sec-fetch-site"]; // scripts cannot set it
      if (site === "cross-site") return false;
      return site === "same-origin" || headers.origin === undefined || own.has(headers.origin);
    },
  };
}
