import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { DescService } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { fastify } from "fastify";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { Config } from "../services/platform/config.ts";
import { requestIdOf } from "../services/platform/metadata.ts";
import { services as allServices } from "../services/platform/services.ts";
import { followAnswers, type LatestAnswer } from "./answers.ts";
import { readBody } from "./body.ts";
import { createClientAddress } from "./client-address.ts";
import { boundConnections } from "./connections.ts";
import { addOpenApi } from "./docs/openapi.ts";
import { addPages } from "./docs/pages.ts";
import { addHealth } from "./health.ts";
import { answerUnreadable, fromFastifyError } from "./hooks/client-error.ts";
import { createOrigins } from "./hooks/cors.ts";
import { addEdge, commonHeaders, greet } from "./hooks/hooks.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { createLifecycle } from "./lifecycle.ts";
import { createMetadata } from "./metadata.ts";
import { createRequestMetrics } from "./metrics.ts";
import { type Room, takePlaces } from "./places.ts";
import { type StartSpan, traceRequests } from "./tracing.ts";
import { DEFAULT_BODY_BYTES, readBinding } from "./transcode/binding.ts";
import { createCookies } from "./transcode/cookies.ts";
import type { OpenCalls } from "./transcode/inflight.ts";
import { sendError } from "./transcode/response.ts";
import { addRoute } from "./transcode/route.ts";
import { inTurn } from "./turns.ts";

/** What a gateway is made of. */
export type GatewayOptions = {
  config: Pick<Config, "publicUrl" | "corsOrigins" | "trustProxy" | "internalSecret" | "shutdownMs" | "docs">;
  /** The way to the services. */
  transport: Transport;
  /** What its requests share. */
  room: Room;
  log: Logger;
  /** Begins spans, where traces are collected. */
  startSpan?: StartSpan | undefined;
  /** The present time. */
  clock?: { now: () => Date };
  /** The services whose methods become routes. */
  services?: readonly DescService[];
  /** Silence in an event stream after which a comment is sent, in milliseconds. */
  keepAliveMs?: number;
  /** Longest a request may take to arrive, in milliseconds. */
  requestTimeoutMs?: number;
  /** A reader that takes nothing for so long is cut off, in milliseconds. */
  stalledMs?: number;
};

/** The REST and SSE side of the product. */
export type Gateway = Lifecycle & { app: FastifyInstance; metrics: Registry };

const KEEP_ALIVE_MS = 15_000;
const REQUEST_TIMEOUT_MS = 30_000;
const STALLED_MS = 120_000;
/** Longest request line with its headers. */
const MAX_HEAD_BYTES = 16 * 1024;

/**
 * Makes the gateway: a route for each method of the services, as their options say.
 * @throws Error naming the method whose options it can't serve
 */
export function createGateway(options: GatewayOptions): Gateway {
  const { config, transport, log, clock = { now: () => new Date() }, services = allServices } = options;
  const secure = new URL(config.publicUrl).protocol === "https:"; // in any spelling
  const origins = createOrigins(config.publicUrl, config.corsOrigins);
  const calls: OpenCalls = new Set();
  const report = (err: unknown, request: FastifyRequest) => log.error({ err, requestId: request.id }, "request failed");
  const answer = (thrown: FastifyError, request: FastifyRequest, reply: FastifyReply) => {
    const failed = fromFastifyError(thrown);
    if (failed.isInternal) report(thrown, request);
    if (!reply.hasHeader("x-request-id")) greet(request, reply, edge); // refused before any hook ran, by the router
    // Fastify would close at once, which resets the connection before the answer is read. Removed unasked, this header
    // would take Node's own with it, by which clients know whether the connection goes on.
    const isOurs = lifecycle.phase() === "draining" || !reply.raw.shouldKeepAlive;
    if (reply.hasHeader("connection") && !request.raw.complete && !isOurs) reply.removeHeader("connection");
    sendError(failed, reply);
  };
  const { app, latestOn } = createServer(
    options,
    (error, socket, latest) => answerUnreadable(error, socket, latest, { ...edge, methodsOf }),
    answer,
  );
  const lifecycle = createLifecycle(app, calls, config.shutdownMs);
  const metrics = createRequestMetrics();
  const edge = { log, origins, headers: commonHeaders(secure), lifecycle, metrics };
  app.addHook("onRequest", takePlaces(options.room));
  app.addHook("onRequest", inTurn(latestOn));
  const traceparentOf = options.startSpan && traceRequests(app, options.startSpan);
  const methodsOf = addEdge(app, edge);
  app.setErrorHandler(answer);
  const transcoder = {
    transport,
    cookies: createCookies(config.publicUrl, () => clock.now().getTime()),
    metadata: createMetadata(createClientAddress(config.trustProxy), config.internalSecret, traceparentOf),
    isOwnSite: (request: FastifyRequest) => origins.isOwn(request.headers),
    report,
    keepAliveMs: options.keepAliveMs ?? KEEP_ALIVE_MS,
    calls,
    soon: options.room.soon,
  };
  const rules = services.flatMap((service) => service.methods.map(readBinding));
  for (const rule of rules) addRoute(app, rule, transcoder);
  addHealth(app, transport, lifecycle.phase);
  if (config.docs) addOpenApi(app, rules, config.publicUrl);
  addPages(app, config.docs);
  return { app, metrics: metrics.registry, ...lifecycle };
}

type Answer = (thrown: FastifyError, request: FastifyRequest, reply: FastifyReply) => void;
type AnswerUnreadable = (error: Error, socket: Duplex, latest: ServerResponse | undefined) => void;

/** An HTTP server that leaves every decision about bodies and refusals to us. */
function createServer(
  {
    requestTimeoutMs: requestTimeout = REQUEST_TIMEOUT_MS,
    stalledMs: connectionTimeout = STALLED_MS,
    room,
  }: GatewayOptions,
  unreadable: AnswerUnreadable,
  frameworkErrors: Answer,
): { app: FastifyInstance; latestOn: LatestAnswer } {
  const app = fastify({
    genReqId: (request) => requestIdOf(request.headers["x-request-id"]),
    bodyLimit: DEFAULT_BODY_BYTES,
    forceCloseConnections: true, // by then the open calls have had their grace
    return503OnClosing: false,
    requestTimeout,
    connectionTimeout,
    http: {
      headersTimeout: requestTimeout,
      maxHeaderSize: MAX_HEAD_BYTES,
      connectionsCheckingInterval: Math.min(1_000, requestTimeout / 4),
      requireHostHeader: false, // checked by a hook, which answers in the error shape
    },
    routerOptions: {
      maxParamLength: MAX_HEAD_BYTES, // however long, a wrong id is told by its name
      querystringParser: () => ({}), // queries are read by the types of their fields
    },
    clientErrorHandler: (error, socket) => unreadable(error, socket, latestOn(socket)),
    frameworkErrors,
  });
  const latestOn = followAnswers(app.server);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", readBody);
  boundConnections(app.server, room.connections, latestOn);
  app.server.on("timeout", (socket) => {
    const isWaitingForUs = latestOn(socket)?.writableEnded === false && socket.writableLength === 0;
    if (!isWaitingForUs) socket.destroy();
  });
  app.server.on("checkExpectation", (request, response) => app.server.emit("request", request, response));
  app.server.on("connect", (_request, socket) => {
    socket.on("error", () => {}); // Node leaves this socket to us, and the client that resets it is no failure of ours
    socket.resume().on("end", () => latestOn(socket)?.destroy()); // who leaves an earlier request is seen by reading on
    unreadable(new Error("tunnels are not served"), socket, latestOn(socket));
  });
  return { app, latestOn };
}
