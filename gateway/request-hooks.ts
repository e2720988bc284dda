import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Reason } from "../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../gen/gatehouse/platform/v1/policy_pb.ts";
import { openCallOf } from "../services/platform/gate/open-calls.ts";
import type { Origins } from "../services/platform/gate/origins.ts";
import type { TrustedProxies } from "../services/platform/gate/proxies.ts";
import { addServerHooks, type Port } from "../services/platform/gate/server-hooks.ts";
import { ServiceError, shuttingDown } from "../services/platform/rpc/errors.ts";
import { authorizationOf } from "./formats/authorization.ts";
import { formatOfTarget } from "./formats/formats.ts";
import { isHealthPath } from "./health.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { checkTarget } from "./request-target.ts";
import type { HttpBinding } from "./transcode/binding.ts";

/** Dependencies of the request hooks. Tests without authentication omit the checks. */
type HookOptions = Pick<Port, "gate" | "admitRequest"> & {
  origins: Origins;
  headers: ReturnType<typeof commonHeaders>;
  lifecycle: Lifecycle;
  proxies: TrustedProxies;
  navigation: Navigation;
};

/** How to respond to navigations to places of the web app. Undefined without the app. */
export type Navigation = { sendPage?: (request: FastifyRequest, reply: FastifyReply) => void };

declare module "fastify" {
  interface FastifyRequest {
    /** Whether a browser opens a place of the web app, which takes precedence over all routes. */
    opensPlace: boolean;
  }
  interface FastifyContextConfig {
    /** The binding of a route to a method. */
    binding?: HttpBinding;
  }
}

/** Time for which the rest of a body is read after the response, in ms (nginx: lingering_close). */
const LINGER_MS = 2_000;

/**
 * Headers of every API response. Pages replace the content security policy with their own.
 * @param secure whether clients reach the gateway with https
 */
export const commonHeaders = (secure: boolean): Record<string, string> => ({
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  ...(secure && { "strict-transport-security": "max-age=31536000; includeSubDomains" }),
});

/**
 * Adds the hook for every request: metrics, log, common headers, CORS, unknown routes, and the
 * checks common to all ports.
 * @returns the first part of the hook, for requests that the router rejects before running hooks
 */
export function addRequestHooks(app: FastifyInstance, options: HookOptions) {
  const { origins, headers, lifecycle, gate, admitRequest, proxies, navigation } = options;
  const methodsOf = followRoutes(app);
  app.decorateRequest("startedAt", 0);
  app.decorateRequest("span", undefined);
  app.decorateRequest("failure", undefined);
  app.decorateRequest("call");
  app.decorateRequest("opensPlace", false);
  const begin = (request: FastifyRequest, reply: FastifyReply) => {
    lifecycle.begin(request, reply);
    reply.headers(headers).header("x-request-id", request.id);
    origins.allow(request.headers, reply);
  };
  const end = (request: FastifyRequest, reply: FastifyReply) => {
    lifecycle.end(request, reply);
    if (!request.raw.complete) closeLingering(request.raw);
  };
  const refuseWhileDraining = (reply: FastifyReply) => {
    if (lifecycle.phase() !== "draining") return;
    reply.header("connection", "close");
    throw shuttingDown();
  };
  addServerHooks(app, {
    gate,
    admitRequest,
    headOf(request) {
      if (request.opensPlace) return undefined;
      const { method, format } = request.routeOptions.config.binding ?? {};
      if (!method) return undefined;
      const { raw, headers } = request;
      const authorization = authorizationOf(headers, format);
      return { method, authorization, open: openCallOf(raw), isWhole: () => raw.complete };
    },
    onRequest(request, reply) {
      begin(request, reply);
      proxies.checkForwarded(request);
      checkHost(request.raw);
      checkTarget(request.raw);
      if (request.method === "OPTIONS" && origins.preflight(request.headers, reply)) return;
      request.opensPlace = navigation.sendPage !== undefined && isNavigation(request);
      if (request.is404 && !request.opensPlace) {
        const allow = methodsOf(request.raw.url ?? "");
        if (!allow) throw nothingHere();
        reply.header("allow", allow);
        throw new ServiceError(Reason.METHOD_NOT_ALLOWED, `This path only allows ${allow}.`);
      }
      if (!isHealthPath(request.routeOptions.url ?? "")) refuseWhileDraining(reply);
    },
    onClose: end,
  });
  app.addHook("onRequest", (request, reply, done) => {
    if (!request.opensPlace) return done();
    reply.header("vary", [reply.getHeader("vary"), NAVIGATION_HEADERS].filter(Boolean).join(", "));
    navigation.sendPage?.(request, reply);
  });
  return (request: FastifyRequest, reply: FastifyReply) => {
    reply.raw.once("close", () => end(request, reply));
    begin(request, reply);
  };
}

const NAVIGATION_HEADERS = "sec-fetch-mode, accept";

/**
 * Whether a browser opens a place of the web app. A place may have the path of a route that
 * requires an access token, such as `/admin/users`. A navigation cannot send a token, so it is not
 * meant for the API. Other clients still get JSON. Paths of foreign APIs are not places.
 */
function isNavigation({ method, headers, is404, routeOptions, raw }: FastifyRequest): boolean {
  if ((method !== "GET" && method !== "HEAD") || formatOfTarget(raw.url)) return false;
  const mode = headers["sec-fetch-mode"];
  const isProtected =
    routeOptions.config?.binding !== undefined &&
    routeOptions.config.binding.policy.access !== Access.PUBLIC;
  if (mode !== undefined) return mode === "navigate" && (is404 || isProtected);
  return is404 && /\btext\/html\b/.test(headers.accept ?? "");
}

export const nothingHere = () =>
  new ServiceError(Reason.NOT_FOUND, "There is no resource at this path.");

/**
 * Discards the rest of a body after an early response, since many clients only read the response
 * after they have sent the whole body.
 */
function closeLingering(request: IncomingMessage): void {
  if (request.socket.destroyed) return;
  const timer = setTimeout(() => request.complete || request.socket.destroy(), LINGER_MS);
  request.once("close", () => clearTimeout(timer));
  request.resume();
}

/**
 * Requires exactly one Host header (RFC 9112 section 3.2): with two, a proxy and this process could
 * use different ones.
 */
function checkHost({ rawHeaders, httpVersion }: IncomingMessage): void {
  const isHost = (text: string, i: number) =>
    i % 2 === 0 && text.length === 4 && text.toLowerCase() === "host";
  const hosts = rawHeaders.filter(isHost).length; // `headersDistinct` would process all headers of every request
  if (hosts > 1 || (hosts === 0 && httpVersion !== "1.0")) {
    throw new ServiceError(Reason.MALFORMED_REQUEST, "The request must have one Host header.");
  }
}

/**
 * Collects the routes that are added from now on.
 * @returns a function that lists the methods of the routes for a URL
 */
function followRoutes(app: FastifyInstance): (url: string) => string {
  const routes: { pattern: RegExp; methods: string[] }[] = [];
  app.addHook("onRoute", ({ url, method }) => {
    const pattern = new RegExp(`^${url.replaceAll(".", "\\.").replace(/:\w+/g, "[^/]+")}$`);
    routes.push({ pattern, methods: [method].flat() });
  });
  return (url) => {
    const path = decodeURI(url.replace(/^https?:\/\/[^/]*|[?#].*$/g, "")); // clients of a proxy send absolute URLs
    return [
      ...new Set(routes.flatMap(({ pattern, methods }) => (pattern.test(path) ? methods : []))),
    ].join(", ");
  };
}
