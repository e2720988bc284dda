import type { Http2ServerRequest } from "node:http2";
import type { AddressInfo } from "node:net";
import type { DescMethod } from "@bufbuild/protobuf";
import { type ConnectRouter, createContextKey, createContextValues, type HandlerContext } from "@connectrpc/connect";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { Health } from "../../gen/health/v1/health_pb.ts";
import type { App } from "../app.ts";
import { clientAddressOf, createTrustedProxies, isGatewaySecret, requestIdOf, SECRET } from "../platform/client.ts";
import type { Config } from "../platform/config.ts";
import { connectErrorOf, ServiceError, toConnectError } from "../platform/errors.ts";
import { DEFAULT_BODY_BYTES, services } from "../platform/policy.ts";
import { closeWithin, readServerTls } from "../platform/process.ts";
import { addServerHooks, admittedKey, schemaController } from "../platform/server-hooks.ts";
import {
  abortOnShutdown,
  allowGatewayStreams,
  createHttp2Server,
  MAX_TIMEOUT_MS,
  refuseLongTimeout,
} from "./http2-server.ts";
import { reflectionHandler } from "./reflection.ts";
import { discardBody, encodingOf, gzip, rawOf, receiveBody, TIMEOUTS } from "./request-body.ts";

const MAX_HEADER_BYTES = 16 * 1024;

/** A listening gRPC server. */
export type GrpcServer = {
  port: number;
  /** Accepts no new calls, gives open ones `graceMs`, then aborts them. */
  close(graceMs: number): Promise<void>;
};

/** Why a call is refused, and a promise for the end of its body, which is discarded. */
type Refusal = { error: unknown; discarded: Promise<unknown> };
const requestKey = createContextKey<FastifyRequest | undefined>(undefined, { description: "request" });

/** Tests may omit the checks of the port. */
type GrpcApp = Pick<App, "routes" | "interceptors"> &
  Partial<Pick<App, "gate" | "admission" | "proxies" | "onRefused">>;
type GrpcConfig = Pick<Config, "grpc"> & Partial<Pick<Config, "internalSecret">>;

/**
 * Serves gRPC, gRPC-Web and Connect on one port: HTTP/2 without TLS, or TLS if there is a certificate.
 * @throws Error for operators if a file can't be read or the port is not available
 */
export async function listenGrpc(app: GrpcApp, config: GrpcConfig, timeouts = TIMEOUTS): Promise<GrpcServer> {
  const { host, port, tls, reflection } = config.grpc;
  const { proxies = createTrustedProxies([]) } = app;
  const shutdown = new AbortController();
  const connections = createHttp2Server(tls ? readServerTls(tls) : undefined, timeouts.idleMs);
  const server = fastify({
    serverFactory: (handler) => connections.server.on("request", handler as never) as never,
    genReqId: ({ headers }) => requestIdOf(headers["x-request-id"]),
    // With mutual TLS every peer is an internal caller, whose X-Forwarded-For names its client.
    trustProxy: tls?.ca ? (address, hop) => hop === 0 || proxies.isTrusted(address) : proxies.option,
    exposeHeadRoutes: false,
    schemaController,
    routerOptions: { maxParamLength: MAX_HEADER_BYTES },
  }) as FastifyInstance;
  const methods = new Map<string, DescMethod>();
  const refusals = new WeakMap<FastifyRequest, Refusal>();
  const refuse = (request: FastifyRequest, error: unknown) =>
    refusals.set(request, { error, discarded: discardBody(request, timeouts.requestMs) });
  /** Throws the error of a refused call inside Connect, which writes it in the form of each protocol. */
  async function throwRefusal({ values, requestHeader, method }: HandlerContext) {
    const request = values.get(requestKey) as FastifyRequest;
    requestHeader.set("x-request-id", request.id); // for the log, the audit log and errors
    const refusal = refusals.get(request);
    if (!refusal) return;
    app.onRefused?.(method, request.id, refusal.error);
    await refusal.discarded;
    throw connectErrorOf(refusal.error);
  }
  /** A body for Connect. After an error it reports a unary call, which reaches no interceptor, and discards the rest. */
  async function* bodyOf(request: FastifyRequest, method: DescMethod) {
    const startedAt = performance.now();
    try {
      yield* receiveBody(request, method, timeouts);
    } catch (error) {
      const refusal = error instanceof ServiceError ? error : undefined;
      if (refusal && method.methodKind === "unary") app.onRefused?.(method, request.id, refusal);
      await discardBody(request, timeouts.requestMs - (performance.now() - startedAt));
      throw refusal ? toConnectError(refusal) : error;
    }
  }
  app.admission?.limitConnections(connections.server, proxies.isTrusted);
  addServerHooks(server, {
    gate: app.gate,
    headOf(request) {
      const method = methods.get(request.routeOptions.url ?? "");
      if (!method) return undefined;
      const { authorization, [SECRET]: secret } = request.headers;
      const isForwarded = isGatewaySecret(secret, config.internalSecret);
      if (isForwarded) allowGatewayStreams(rawOf(request).stream.session);
      return { method, authorization, address: clientAddressOf(request), isForwarded };
    },
    onRequest(request, reply) {
      if (!tls?.ca) proxies.checkForwarded(request);
      if (!URL.canParse(`http://${rawOf(request).authority}`)) {
        throw new ServiceError(Reason.MALFORMED_REQUEST, "The authority is no host.");
      }
      reply.header("grpc-accept-encoding", gzip.name);
      endWrites(rawOf(request), reply);
    },
    onRefused: refuse,
  });
  server.addHook("preHandler", (request, _reply, done) => {
    const method = methods.get(request.routeOptions.url ?? "");
    const tooLong = refuseLongTimeout(request.headers);
    const error = method && !refusals.has(request) && (tooLong ?? refuseEncoding(request));
    if (error) refuse(request, error);
    if (method && !refusals.has(request)) request.body = bodyOf(request, method);
    done();
  });
  server.setNotFoundHandler((_request, reply) => reply.code(404).send());
  server.setErrorHandler(({ statusCode = 500 }: { statusCode?: number }, _request, reply) =>
    reply.code(statusCode < 500 ? statusCode : 400).send(),
  );
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", (_request, _body, done) => done(null)); // Connect reads it
  const routes = (router: ConnectRouter) => {
    app.routes(router);
    if (reflection) {
      router.service(ServerReflection, reflectionHandler([...services, Health]), { readMaxBytes: DEFAULT_BODY_BYTES });
    }
    for (const { requestPath, method } of router.handlers) methods.set(requestPath, method);
  };
  await server.register(fastifyConnectPlugin, {
    routes,
    contextValues: (request) => createContextValues().set(admittedKey, request.admitted).set(requestKey, request),
    requestGate: throwRefusal,
    interceptors: [abortOnShutdown(shutdown.signal), ...app.interceptors],
    acceptCompression: [gzip],
    compressMinBytes: 0xffffffff,
    binaryOptions: { readUnknownFields: false }, // each unknown field would become an object
    maxTimeoutMs: MAX_TIMEOUT_MS,
  });
  await server.listen({ host, port });
  return {
    port: (connections.server.address() as AddressInfo).port,
    async close(graceMs) {
      const closed = server.close();
      connections.drain();
      await closeWithin(closed, graceMs, [shutdown], connections.cut);
    },
  };
}

/**
 * Ends a write that waits for a client which has left. Node 26 does not (nodejs/node#58252), and Connect prints the error of
 * earlier versions, since it is not of a connection.
 */
function endWrites({ stream }: Http2ServerRequest, { raw }: FastifyReply): void {
  const error = Object.assign(new Error("The client has left."), { code: "ECONNRESET" });
  stream.once("aborted", () => raw.listenerCount("error") > 0 && raw.emit("error", error));
}

function refuseEncoding({ headers, admitted }: FastifyRequest): ServiceError | undefined {
  const encoding = encodingOf(headers);
  if (encoding === undefined || (encoding === gzip.name && admitted?.claims)) return undefined;
  const message = admitted?.claims
    ? "A request is one message, compressed by gzip if at all."
    : "Requests without an access token must not be compressed.";
  return new ServiceError(Reason.NOT_IMPLEMENTED, message);
}
