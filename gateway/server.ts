import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import { type Client, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import {
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
  fastify,
} from "fastify";
import type { Logger } from "pino";
import { AuthService } from "../gen/gatehouse/account/v1/auth_service_pb.ts";
import { Reason } from "../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Config } from "../services/platform/config/config.ts";
import { createRemoteKeys, type VerificationKeys } from "../services/platform/gate/access-token.ts";
import { createAdmission } from "../services/platform/gate/admission.ts";
import type { FindKey } from "../services/platform/gate/api-key-cache.ts";
import { countRequests } from "../services/platform/gate/http1-guard.ts";
import { createPortGuard } from "../services/platform/gate/open-calls.ts";
import { createOrigins } from "../services/platform/gate/origins.ts";
import { createTrustedProxies, type TrustedProxies } from "../services/platform/gate/proxies.ts";
import { openGate, schemaController } from "../services/platform/gate/server-hooks.ts";
import { type Clock, systemClock } from "../services/platform/process/clock.ts";
import { ServiceError } from "../services/platform/rpc/errors.ts";
import { requestIdOf, SECRET } from "../services/platform/rpc/metadata.ts";
import { clientMethods, DEFAULT_BODY_BYTES } from "../services/platform/rpc/policy.ts";
import { readBody } from "../services/platform/rpc/read-body.ts";
import { addAppConfig } from "./app-config.ts";
import { addExternal } from "./external.ts";
import { addHealth, isHealthPath } from "./health.ts";
import { createLifecycle, type StartSpan } from "./lifecycle.ts";
import { addRequestHooks, commonHeaders, type Navigation } from "./request-hooks.ts";
import { readBinding } from "./transcode/binding.ts";
import { createClientErrorHandler, createRefusal, toHttpError } from "./transcode/errors.ts";
import { addCookies, forwardHeaders, sendError } from "./transcode/response.ts";
import { addRoute } from "./transcode/route.ts";
import { addDocs, addPages, addWeb, addWellKnown, servesWeb } from "./web.ts";

/** Time limits, in ms. Tests use shorter ones. */
const TIME_LIMITS = {
  /** Silence in an event stream after which a comment is sent. */
  keepAliveMs: 15_000,
  /** Maximum time until a request has been received. */
  requestTimeoutMs: 30_000,
  /** Maximum time for which a client may not read its response. */
  writeTimeoutMs: 120_000,
};
/** How long a connection may wait for its next request, in ms. */
const KEEP_ALIVE_MS = 72_000;
/** Maximum size of the request line and headers, in bytes. */
const MAX_HEAD_BYTES = 16 * 1024;

/** Dependencies and settings of a gateway. */
export type GatewayOptions = Partial<typeof TIME_LIMITS> & {
  config: Config;
  transport: Transport;
  /** The checks of the port. Tests may omit them. */
  checks?: Partial<Checks>;
  log: Logger;
  /** Starts spans; undefined without tracing. */
  startSpan?: StartSpan | undefined;
  clock?: Clock;
};

type Checks = Pick<Awaited<ReturnType<typeof openGate>>, "gate" | "admitRequest" | "admission"> & {
  /** The public keys of the services. */
  keys: VerificationKeys;
};

/**
 * Creates the gateway: one route per method of the services, defined by the method's options.
 * @throws Error naming a method whose options are not supported
 */
export function createGateway(options: GatewayOptions) {
  const { config, transport, checks = {}, log, clock = systemClock } = options;
  const proxies = createTrustedProxies(config.trustProxy, log);
  const headers = commonHeaders(new URL(config.publicUrl).protocol === "https:"); // parsed, because the URL may be in upper case
  const origins = createOrigins(config.publicUrl, config.corsOrigins);
  const lifecycle = createLifecycle(config.shutdownTimeoutMs, log, {
    startSpan: options.startSpan,
    logged: config.logRequests,
  });
  const report = (err: unknown, request: FastifyRequest) =>
    log.error({ err, requestId: request.id }, "request failed");
  const answer = (thrown: Error, request: FastifyRequest, reply: FastifyReply) => {
    const failed = toHttpError(thrown);
    request.failure = failed.body.code;
    if (failed.isInternal) report(thrown, request);
    if (!reply.hasHeader("x-request-id")) beginRequest(request, reply); // the router rejected it before any hook
    // Fastify would close the connection immediately, which resets it before the client has read
    // the response. Removing the header also removes the one that Node adds, so only do so if
    // Fastify has set it.
    const isOurs = lifecycle.phase() === "draining" || !reply.raw.shouldKeepAlive;
    if (reply.hasHeader("connection") && !request.raw.complete && !isOurs)
      reply.removeHeader("connection");
    if (failed.reason === Reason.UNAUTHENTICATED) request.admitted?.onCredentialEnded();
    if (thrown instanceof ServiceError) reply.headers(Object.fromEntries(thrown.headers));
    if (thrown instanceof ConnectError) forwardHeaders(thrown.metadata, reply);
    sendError(failed, reply);
  };
  const app = createServer(options, proxies, {
    clientErrorHandler: createClientErrorHandler(log, lifecycle, headers),
    frameworkErrors: answer,
    refuse: createRefusal(log, lifecycle, headers),
  });
  const navigation: Navigation = {};
  const beginRequest = addRequestHooks(app, {
    navigation,
    origins,
    headers,
    lifecycle,
    gate: checks.gate,
    admitRequest: checks.admitRequest,
    proxies,
  });
  app.setErrorHandler(answer);
  addCookies(app, config.publicUrl);
  const { internalSecret } = config;
  const { keys } = checks;
  const transcoder = { ...TIME_LIMITS, ...options, clock, internalSecret, origins, report, keys };
  for (const method of clientMethods()) addRoute(app, readBinding(method), transcoder);
  addHealth(app, transport, lifecycle.phase);
  addAppConfig(app, config);
  addExternal(app, config);
  if (config.docs) addDocs(app, config, config.publicUrl);
  addWellKnown(app, config);
  if (servesWeb(config)) navigation.sendPage = addWeb(app, config, config.publicUrl);
  else addPages(app, config);
  return {
    app,
    metrics: lifecycle.metrics,
    listen: (address: { host: string; port: number }) => lifecycle.listen(app, address),
    drain: () => lifecycle.drain(app),
  };
}

/**
 * Opens the checks of a standalone gateway, which uses the public keys of the services and counts
 * rate limits itself.
 */
export async function openStandaloneGate(
  config: Config,
  transport: Transport,
  options: { log: Logger; clock: Clock },
) {
  if (config.rateLimits && !config.redisUrl)
    options.log.warn(
      "REDIS_URL is not set: each gateway counts rate limits separately, so the effective limits grow with every gateway",
    );
  const services = createClient(AuthService, transport);
  const keys = createRemoteKeys(async () => (await services.listKeys({})).keys);
  const findKey = createRemoteFindKey(services, config.internalSecret);
  return { ...(await openGate(config, keys, { ...options, findKey })), keys };
}

/** Time limit for finding an API key at the services, in ms. */
const FIND_KEY_TIMEOUT_MS = 5_000;

/** Finds API keys by asking the services. */
const createRemoteFindKey =
  (services: Client<typeof AuthService>, secret = ""): FindKey =>
  async (digest) => {
    const request = { digest: Buffer.from(digest, "hex") };
    const { apiKey } = await services.findApiKey(request, {
      headers: { [SECRET]: secret },
      signal: AbortSignal.timeout(FIND_KEY_TIMEOUT_MS),
    });
    if (!apiKey) return undefined;
    const { id: keyId, userId, serviceAccount: isService, requestsPerMinute } = apiKey;
    return { keyId, userId, isService, requestsPerMinute };
  };

type ErrorHandlers = Pick<FastifyServerOptions, "clientErrorHandler" | "frameworkErrors"> & {
  refuse: ReturnType<typeof createRefusal>;
};

/** Creates the HTTP server. Its own errors have the same shape as all others. */
function createServer(options: GatewayOptions, proxies: TrustedProxies, handlers: ErrorHandlers) {
  const { requestTimeoutMs: requestTimeout, writeTimeoutMs } = { ...TIME_LIMITS, ...options };
  const { refuse, ...errorHandlers } = handlers;
  const { admission = createAdmission() } = options.checks ?? {};
  const isProbe = (url: string) => isHealthPath(url.replace(/\?.*/s, ""));
  const guard = createPortGuard({ admission, proxies, isProbe, log: options.log });
  const app = fastify({
    serverFactory(handle) {
      const server = createHttpServer({
        requestTimeout,
        headersTimeout: requestTimeout,
        keepAliveTimeout: KEEP_ALIVE_MS,
        maxHeaderSize: MAX_HEAD_BYTES,
        connectionsCheckingInterval: Math.min(1_000, requestTimeout / 4),
        requireHostHeader: false, // checked by a hook, which responds in the common error shape
      });
      const counted = countRequests(guard, handle, refuse);
      guard.watch(server);
      server.setTimeout(writeTimeoutMs);
      // A client that waits for "100 Continue" sends its body once the request has been admitted
      // (RFC 9110 section 10.1.1).
      for (const event of ["request", "checkContinue", "checkExpectation"])
        server.on(event, counted);
      return server;
    },
    genReqId: ({ headers }) => requestIdOf(headers["x-request-id"]),
    bodyLimit: DEFAULT_BODY_BYTES,
    schemaController,
    forceCloseConnections: true, // open calls have had their grace period
    return503OnClosing: false,
    routerOptions: {
      maxParamLength: MAX_HEAD_BYTES, // long ids are rejected by their method, whose error names the field
      querystringParser: () => ({}), // queries are parsed by field type
    },
    ...errorHandlers,
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    "*",
    ({ routeOptions, admitted }: FastifyRequest, payload: IncomingMessage) =>
      readBody(payload, admitted?.permit, routeOptions.bodyLimit),
  );
  // A connection is also silent while its client waits for a response, which is allowed.
  app.server.on("timeout", (socket) => socket.writableLength > 0 && socket.destroy());
  app.addHook("preParsing", ({ raw: { headers, httpVersion } }, reply, _payload, done) => {
    if (httpVersion !== "1.0" && headers.expect?.toLowerCase() === "100-continue")
      reply.raw.writeContinue();
    done();
  });
  app.server.on("connect", (_request, socket) => {
    socket.on("error", () => {}); // the client may reset the connection
    app.server.emit("clientError", new Error("CONNECT is not supported"), socket);
  });
  return app;
}
