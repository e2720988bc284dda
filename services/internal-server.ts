import { once } from "node:events";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import { type DescMethodServerStreaming, type DescMethodUnary, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createConnectRouter, createContextValues, type StreamResponse } from "@connectrpc/connect";
import type { Logger } from "pino";
import { Reason } from "../gen/gatehouse/platform/v1/failure_pb.ts";
import type { App } from "./app.ts";
import { maxBytesOf } from "./grpc/request-body.ts";
import type { GrpcServer } from "./grpc/server.ts";
import { every } from "./jobs/every.ts";
import { readBody } from "./platform/body-limits.ts";
import { isGatewaySecret, requestIdOf, SECRET } from "./platform/client.ts";
import { internalError, ServiceError, shuttingDown, toConnectError } from "./platform/errors.ts";
import { createInProcessTransport } from "./platform/in-process.ts";
import {
  ALIVE_ENVELOPE,
  CONTENT_TYPE,
  endEnvelope,
  envelope,
  readInternalUrl,
  TIMEOUT_HEADER,
} from "./platform/internal-protocol.ts";
import { readServerTls, removeStaleSocket, systemClock, type TlsFiles } from "./platform/process.ts";
import { admittedKey } from "./platform/server-hooks.ts";

/** Time limit for a request to arrive, and for a connection without calls, in ms. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Every open call shows so often that it is alive, in ms. A gateway gives up after three times as long. */
const ALIVE_INTERVAL_MS = 5_000;
/** Calls of one connection. A load balancer spreads new connections over services that were started later. */
const MAX_CALLS = 1_000;
/** Time for aborted calls to send their end before their connections are closed, in ms. */
const ABORT_GRACE_MS = 1_000;

type Method = DescMethodUnary | DescMethodServerStreaming;
/** What is served. Tests may omit the checks. */
type Served = Pick<App, "routes" | "interceptors"> & Partial<Pick<App, "gate" | "onRefused">>;
type Options = { url: string; secret: string | undefined; tls: TlsFiles | null; log: Pick<Logger, "warn"> };

/**
 * Serves gateways in other processes. Every request must have the secret of the gateways.
 * @param options `url` says where: see `readInternalUrl`
 * @throws Error for operators if a file can't be read or the address is not available
 */
export async function listenInternal(app: Served, { url, secret, tls, log }: Options): Promise<GrpcServer> {
  const { isTls, at } = readInternalUrl(url);
  const transport = createInProcessTransport(app.routes, app.interceptors);
  const router = createConnectRouter();
  app.routes(router);
  const methods = new Map(router.handlers.map(({ requestPath, method }) => [requestPath, method as Method]));
  const calls = new Map<ServerResponse, AbortController>();
  const server = isTls ? https.createServer(tls ? readServerTls(tls) : {}) : http.createServer();

  /** Checks a call and reads its message. @throws ServiceError */
  async function receive(request: IncomingMessage, response: ServerResponse, header: Headers) {
    const { authorization, [SECRET]: sent } = request.headers;
    if (!isGatewaySecret(sent, secret)) throw notAGateway();
    const method = methods.get(request.url ?? "");
    if (!method) throw new ServiceError(Reason.NOT_IMPLEMENTED, "There is no such method.");
    try {
      const address = request.socket.remoteAddress ?? "127.0.0.1";
      const admitted = await app.gate?.({ method, authorization, address, isForwarded: true });
      response.once("close", () => admitted?.permit.release());
      if (response.destroyed) admitted?.permit.release();
      const reserve = (bytes: number) => admitted?.permit.reserveBody(bytes);
      const body = await readBody(request, { maxBytes: maxBytesOf(method), reserve });
      const message = fromBinary(method.input, body, { readUnknownFields: false });
      return { method, message, values: createContextValues().set(admittedKey, admitted) };
    } catch (error) {
      app.onRefused?.(method, String(header.get("x-request-id")), error);
      throw error;
    }
  }

  async function respond(request: IncomingMessage, response: ServerResponse, signal: AbortSignal): Promise<void> {
    const header = new Headers(request.headers as Record<string, string>);
    header.set("x-request-id", requestIdOf(request.headers["x-request-id"]));
    const { method, message, values } = await receive(request, response, header);
    const timeout = header.get(TIMEOUT_HEADER);
    const options = [signal, timeout === null ? undefined : Number(timeout), header] as const;
    if (method.methodKind === "unary") {
      const result = await transport.unary(method, ...options, message, values);
      const body = [envelope(toBinary(method.output, result.message)), endEnvelope(result.trailer)];
      begin(response, 200, result.header).end(Buffer.concat(body));
    } else {
      await sendStream(response, await transport.stream(method, ...options, one(message), values), signal);
    }
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const call = new AbortController();
    calls.set(response, call);
    response.once("close", () => {
      calls.delete(response);
      call.abort(new ConnectError("The gateway has left.", Code.Canceled));
    });
    if (!server.listening) response.setHeader("connection", "close");
    await respond(request, response, call.signal).catch((thrown) => {
      const error = errorOf(thrown);
      if (!response.destroyed) begin(response, 400, error.metadata).end(endEnvelope(error.metadata, error));
    });
  }

  server.requestTimeout = server.headersTimeout = server.keepAliveTimeout = REQUEST_TIMEOUT_MS;
  server.maxRequestsPerSocket = MAX_CALLS;
  server.on("request", (request, response) => void serve(request, response).catch(() => response.destroy()));
  if ("path" in at) await removeStaleSocket(at.path);
  await once(server.listen(at), "listening");
  const address = server.address();
  const showAlive = async () => {
    for (const response of calls.keys()) {
      if (!response.headersSent) response.writeProcessing();
      else if (!response.writableEnded && !response.writableNeedDrain) response.write(ALIVE_ENVELOPE);
    }
  };
  const job = { name: "show that calls are alive", intervalMs: ALIVE_INTERVAL_MS, run: showAlive };
  const alive = every(job, { clock: systemClock, log });
  return {
    port: address !== null && typeof address === "object" ? address.port : 0,
    async close(graceMs) {
      const closed = once(server.close(), "close");
      const abort = () => {
        for (const call of calls.values()) call.abort(toConnectError(shuttingDown()));
      };
      const cut = () => server.closeAllConnections();
      const timers = [setTimeout(abort, graceMs), setTimeout(cut, graceMs + ABORT_GRACE_MS)];
      await closed;
      for (const timer of timers) clearTimeout(timer);
      await alive.close();
    },
  };
}

/** Temporary, since operators mend it: as an error of the access token it would sign the gateway's users out. */
const notAGateway = () =>
  new ServiceError(Reason.UNAVAILABLE, "The services and their gateway do not know each other.");

function begin(response: ServerResponse, status: number, header: Headers): ServerResponse {
  response.sendDate = false;
  return response.writeHead(status, { ...Object.fromEntries(header), "content-type": CONTENT_TYPE });
}

/** Sends the messages of a stream, however it ends. Its headers wait for the first of them. */
async function sendStream(response: ServerResponse, result: StreamResponse, signal: AbortSignal): Promise<void> {
  let error: ConnectError | undefined;
  try {
    for await (const message of result.message) {
      if (!response.headersSent) begin(response, 200, result.header);
      const isFull = !response.write(envelope(toBinary(result.method.output, message)));
      if (isFull) await once(response, "drain", { signal });
    }
  } catch (thrown) {
    error = errorOf(signal.aborted ? signal.reason : thrown);
  }
  if (response.destroyed) return;
  if (!response.headersSent) begin(response, 200, result.header);
  response.end(endEnvelope(error?.metadata ?? result.trailer, error));
}

function errorOf(thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  return thrown instanceof ServiceError ? toConnectError(thrown) : internalError();
}

async function* one<T>(value: T): AsyncIterable<T> {
  yield value;
}
