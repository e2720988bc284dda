import type { IncomingHttpHeaders } from "node:http";
import { constants, type Http2ServerRequest } from "node:http2";
import type { AddressInfo } from "node:net";
import type { DescMethod } from "@bufbuild/protobuf";
import {
  type ConnectRouter,
  cors,
  createContextValues,
  type Interceptor,
} from "@connectrpc/connect";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { Health } from "../../gen/health/v1/health_pb.ts";
import type { App } from "../app.ts";
import type { Config } from "../platform/config/config.ts";
import { createAdmission } from "../platform/gate/admission.ts";
import { createPortGuard, openCallOf } from "../platform/gate/open-calls.ts";
import { createOrigins } from "../platform/gate/origins.ts";
import { createTrustedProxies } from "../platform/gate/proxies.ts";
import { addServerHooks, admittedKey, schemaController } from "../platform/gate/server-hooks.ts";
import { OpenList } from "../platform/process/open-list.ts";
import { closeWithin } from "../platform/process/shutdown.ts";
import { readTlsFiles, type TlsFiles } from "../platform/process/tls-files.ts";
import { abortError, connectErrorOf, ServiceError } from "../platform/rpc/errors.ts";
import { requestIdOf } from "../platform/rpc/metadata.ts";
import { DEFAULT_BODY_BYTES, services } from "../platform/rpc/policy.ts";
import { type Unread, unreadKey } from "../platform/rpc/unread.ts";
import { answerError, answerUnknownMethod } from "./error-answers.ts";
import { createHttp2Server, refuseTimeout } from "./http2-server.ts";
import { reflectionHandler } from "./reflection.ts";
import { discardBody, GZIP, plainContentType, rawOf, receiveBody } from "./request-body.ts";

const MAX_HEADER_BYTES = 16 * 1024;
/**
 * Older tools use v1alpha of server reflection, whose messages are the same as those of v1
 * (gRPC Server Reflection Protocol).
 */
const REFLECTION_V1ALPHA = /^\/grpc\.reflection\.v1alpha\.ServerReflection\//;
const REFLECTION_V1 = `/${ServerReflection.typeName}/`;
/**
 * Time for which the rest of a rejected call's body is discarded before the response is sent, in
 * ms.
 */
const LINGER_MS = 2_000;

/**
 * Time limits of the port, in ms. Same as on the REST port, except that connections may be idle for
 * longer, since gRPC clients pool them.
 */
export const TIMEOUTS = {
  /** Until a request has been received. */
  requestMs: 30_000,
  /** While a client does not read its response. */
  writeMs: 120_000,
  /** While a connection has no open calls. */
  idleMs: 600_000,
  /** For a reflection stream. */
  reflectionMs: 60_000,
};

/** A listening gRPC server. */
export type GrpcServer = {
  port: number;
  /** Stops accepting calls, gives open ones `graceMs` to finish, then aborts them. */
  close(graceMs: number): Promise<void>;
};

/** Tests may omit the checks. */
type GrpcApp = Pick<App, "routes" | "interceptors"> &
  Partial<Pick<App, "gate" | "admission" | "proxies" | "onRefused" | "log">>;
type GrpcConfig = Pick<Config, "grpcHost" | "grpcPort" | "grpcReflection"> &
  Partial<Pick<Config, "internalSecret" | "publicUrl" | "corsOrigins">> & { tls: TlsFiles };

/**
 * Headers of responses that a browser may receive: prevent caching and content sniffing.
 */
const BROWSER_HEADERS = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** Whether a call uses plain gRPC, which no browser can send. */
const isPlainGrpc = (headers: IncomingHttpHeaders) =>
  /^application\/grpc(?!-web)/i.test(headers["content-type"] ?? "");

/** Response headers of gRPC-Web and Connect that browser clients must be able to read. */
const { exposedHeaders } = cors;

/**
 * Serves gRPC, gRPC-Web and Connect on one port, with TLS if there is a certificate.
 * @throws Error for operators
 */
export async function listenGrpc(
  app: GrpcApp,
  config: GrpcConfig,
  timeouts = TIMEOUTS,
): Promise<GrpcServer> {
  const { grpcHost: host, grpcPort: port, tls } = config;
  const { publicUrl = "http://localhost", corsOrigins = [] } = config;
  const origins = createOrigins(publicUrl, corsOrigins, exposedHeaders);
  const { proxies = createTrustedProxies([]), admission = createAdmission() } = app;
  const calls = new OpenList<AbortController>();
  const guard = createPortGuard({
    admission,
    proxies,
    secret: config.internalSecret,
    isProbe: (path) => path.startsWith(`/${Health.typeName}/`),
    isInternal: tls.ca !== undefined, // with mutual TLS every peer is an internal caller
    connections: "http2Connections",
    log: app.log,
  });
  const tlsFiles = tls.cert ? readTlsFiles(tls) : undefined;
  const connections = createHttp2Server(tlsFiles, timeouts.idleMs, guard);
  const server = fastify({
    serverFactory: (handler) => connections.serve(handler as never) as never,
    genReqId: ({ headers }) => requestIdOf(headers["x-request-id"]),
    exposeHeadRoutes: false,
    schemaController,
    routerOptions: { maxParamLength: MAX_HEADER_BYTES },
    rewriteUrl: ({ url = "" }) => url.replace(REFLECTION_V1ALPHA, REFLECTION_V1),
  }) as FastifyInstance;
  const methods = new Map<string, DescMethod>();
  const unreadParts = new WeakMap<FastifyRequest, Unread>();
  const methodOf = (request: FastifyRequest) => methods.get(request.routeOptions.url ?? "");
  /**
   * Rejects a call, once the rest of its body was discarded.
   * @param elapsedMs time already spent waiting for the body
   */
  const refuse = async (
    request: FastifyRequest,
    reply: FastifyReply,
    error: unknown,
    elapsedMs = 0,
  ) => {
    const { isForwarded, address } = openCallOf(request.raw);
    const direct = isForwarded ? undefined : { address };
    app.onRefused?.(methodOf(request) as DescMethod, request.id, error, direct);
    const restMs = timeouts.requestMs - elapsedMs;
    await discardBody(rawOf(request), Math.min(restMs, LINGER_MS));
    answerError(request, reply, connectErrorOf(error));
  };
  addServerHooks(server, {
    gate: app.gate,
    headOf(request) {
      const method = methodOf(request);
      if (!method) return undefined;
      const { authorization } = request.headers;
      return { method, authorization, open: openCallOf(request.raw) };
    },
    onRequest(request, reply) {
      request.headers["x-request-id"] = request.id; // for the log, the audit log and errors
      if (!isPlainGrpc(request.headers)) reply.headers(BROWSER_HEADERS);
      if (!tls.ca) proxies.checkForwarded(request);
      if (!URL.canParse(`http://${rawOf(request).authority}`)) {
        throw new ServiceError(
          Reason.MALFORMED_REQUEST,
          "The :authority header is not a valid host.",
        );
      }
      plainContentType(request.headers);
      origins.allow(request.headers, reply);
      if (request.method === "OPTIONS" && origins.preflight(request.headers, reply)) return;
      reply.header("grpc-accept-encoding", GZIP);
      endWrites(rawOf(request), reply);
    },
    onRefused: refuse,
  });
  server.addHook("preHandler", async (request, reply) => {
    const method = methodOf(request);
    const badTimeout = refuseTimeout(request.headers);
    if (!method) return;
    const startedAt = performance.now();
    limitTime(request, method, timeouts);
    try {
      if (badTimeout) throw badTimeout;
      const { body, unread } = await receiveBody(request, method, timeouts.requestMs);
      request.body = body;
      if (unread) unreadParts.set(request, unread);
    } catch (error) {
      await refuse(request, reply, error, performance.now() - startedAt);
    }
  });
  server.setNotFoundHandler((request, reply) => {
    void discardBody(rawOf(request), timeouts.requestMs);
    answerUnknownMethod(request, reply);
  });
  server.setErrorHandler((_error, _request, reply) => reply.code(400).send());
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", (_request, _body, done) => done(null)); // Connect reads the body
  const routes = (router: ConnectRouter) => {
    app.routes(router);
    if (config.grpcReflection) {
      router.service(ServerReflection, reflectionHandler([...services, Health]), {
        readMaxBytes: DEFAULT_BODY_BYTES,
      });
    }
    for (const { requestPath, method } of router.handlers) methods.set(requestPath, method);
  };
  await server.register(fastifyConnectPlugin, {
    routes,
    contextValues: (request) =>
      createContextValues()
        .set(admittedKey, request.admitted)
        .set(unreadKey, unreadParts.get(request)),
    interceptors: [keepIn(calls), ...app.interceptors],
    acceptCompression: [], // requests are already decompressed, and responses are not compressed
    binaryOptions: { readUnknownFields: false }, // each unknown field would become an object
  });
  await server.listen({ host, port });
  return {
    port: (connections.server.address() as AddressInfo).port,
    async close(graceMs) {
      const closed = server.close();
      connections.drain();
      await closeWithin(closed, graceMs, calls, connections.cut);
    },
  };
}

/**
 * Ends writes to clients that have disconnected. Node 26 does not (nodejs/node#58252). Connect
 * would print errors emitted earlier.
 */
function endWrites({ stream }: Http2ServerRequest, { raw }: FastifyReply): void {
  stream.once("aborted", () => {
    if (raw.listenerCount("error") === 0) return;
    raw.emit("error", Object.assign(new Error("Client disconnected."), { code: "ECONNRESET" }));
  });
}

/**
 * Cancels a reflection stream that lasts too long, and a call whose client does not read the
 * response.
 */
function limitTime(
  request: FastifyRequest,
  method: DescMethod,
  { writeMs, reflectionMs }: typeof TIMEOUTS,
): void {
  const { stream } = rawOf(request);
  const cancel = () => stream.close(constants.NGHTTP2_CANCEL);
  if (method.methodKind === "bidi_streaming") {
    const timer = setTimeout(cancel, reflectionMs);
    stream.once("close", () => clearTimeout(timer));
  } else if (request.admitted?.credential) {
    // Only for calls with a token, since Node does not clear this timer when the connection closes.
    // It also fires while the client waits for a provider; hence `on`, since a callback passed to
    // `setTimeout` would only run once.
    stream.setTimeout(writeMs);
    stream.on("timeout", () => stream.writableLength > 0 && cancel());
  }
}

/**
 * Keeps open calls in a list for the shutdown. Connect's `shutdownSignal` would visit all of them
 * whenever one starts or ends. A unary call ends with its signal, for example at its deadline,
 * whereas Connect would wait for the handler.
 */
function keepIn(calls: OpenList<AbortController>): Interceptor {
  return (next) => (req) => {
    const call = new AbortController();
    const onEnd = () => {
      calls.delete(call);
      call.abort(req.signal.reason);
    };
    calls.add(call);
    req.signal.addEventListener("abort", onEnd);
    if (req.signal.aborted) onEnd();
    const answer = next({ ...req, signal: call.signal });
    if (req.stream) return answer;
    const aborted = new Promise<never>((_, reject) => {
      call.signal.addEventListener("abort", () => reject(abortError(call.signal)));
    });
    return Promise.race([answer, aborted]);
  };
}
