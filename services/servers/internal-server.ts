import { once } from "node:events";
import http, { type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import https from "node:https";
import {
  type DescMethodServerStreaming,
  type DescMethodUnary,
  fromBinary,
  toBinary,
} from "@bufbuild/protobuf";
import { type ConnectError, createContextValues } from "@connectrpc/connect";
import { FailureSchema, Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Health } from "../../gen/health/v1/health_pb.ts";
import type { App } from "../app.ts";
import { createAdmission } from "../platform/gate/admission.ts";
import { countRequests } from "../platform/gate/http1-guard.ts";
import { createPortGuard, openCallOf } from "../platform/gate/open-calls.ts";
import { createTrustedProxies } from "../platform/gate/proxies.ts";
import { admittedKey } from "../platform/gate/server-hooks.ts";
import { OpenList } from "../platform/process/open-list.ts";
import { closeWithin } from "../platform/process/shutdown.ts";
import { readTlsFiles, type TlsFiles } from "../platform/process/tls-files.ts";
import { CALL_ENDED, connectErrorOf, ServiceError } from "../platform/rpc/errors.ts";
import { createInProcessTransport, one } from "../platform/rpc/in-process.ts";
import * as protocol from "../platform/rpc/internal-protocol.ts";
import { requestIdOf } from "../platform/rpc/metadata.ts";
import { services } from "../platform/rpc/policy.ts";
import { readBody } from "../platform/rpc/read-body.ts";
import type { GrpcServer } from "./grpc-server.ts";
import { maxBytesOf } from "./request-body.ts";

/** Time limit for receiving a request, and for a connection without calls, in ms. */
const REQUEST_TIMEOUT_MS = 30_000;
/**
 * Interval at which an idle call sends a sign of life, in ms. A gateway gives up after three times
 * this interval.
 */
const ALIVE_INTERVAL_MS = 5_000;
/**
 * Maximum number of calls per connection. New connections let a load balancer use services that
 * were started later.
 */
const MAX_CALLS = 1_000;

type Method = DescMethodUnary | DescMethodServerStreaming;
/** What to serve. Tests may omit the checks. */
type Served = Pick<App, "routes" | "interceptors"> &
  Partial<Pick<App, "gate" | "admission" | "onRefused" | "log">>;
type Options = { url: string; secret: string | undefined; tls: TlsFiles };

/**
 * Serves gateways in other processes. Every request must carry the gateways' secret.
 * @throws Error for operators if a file can't be read or the address is unavailable
 */
export async function listenInternal(
  app: Served,
  { url, secret, tls }: Options,
): Promise<GrpcServer> {
  const { isTls, at } = protocol.readInternalUrl(url);
  const transport = createInProcessTransport(app.routes, app.interceptors);
  const served = [...services, Health].flatMap(({ methods }) => methods as Method[]);
  const methods = new Map(
    served.map((method) => [`/${method.parent.typeName}/${method.name}`, method]),
  );
  const calls = new OpenList<AbortController>();
  const server = isTls ? https.createServer(readTlsFiles(tls)) : http.createServer();
  const guard = createPortGuard({
    admission: app.admission ?? createAdmission(),
    proxies: createTrustedProxies([]),
    secret,
    isProbe: () => false,
    connections: "gatewayConnections",
    log: app.log,
  });

  /**
   * Checks a call by its headers, reads its message and starts it.
   * @throws ServiceError, ConnectError
   */
  async function start(request: IncomingMessage, response: ServerResponse, signal: AbortSignal) {
    const header = new Headers(request.headers as Record<string, string>);
    const open = openCallOf(request);
    if (!open.isForwarded) {
      response.shouldKeepAlive = false;
      // Reported as temporary, since operators can fix it. If it were reported like an invalid
      // access token, the gateway's users would be signed out.
      throw new ServiceError(
        Reason.UNAVAILABLE,
        "The gateway's INTERNAL_SECRET differs from that of the services.",
      );
    }
    const method = methods.get(request.url ?? "");
    if (!method) throw new ServiceError(Reason.NOT_IMPLEMENTED, "Unknown method.");
    const refuse = (error: unknown): never => {
      app.onRefused?.(method, requestIdOf(header.get("x-request-id")), error);
      throw error;
    };
    const { authorization } = request.headers;
    const isWhole = () => request.complete;
    const admitted = await app.gate?.({ method, authorization, open, isWhole }).catch(refuse);
    response.once("close", () => admitted?.permit.release());
    if (response.destroyed) admitted?.permit.release();
    const decode = (body: Buffer) => fromBinary(method.input, body, { readUnknownFields: false });
    const message = await readBody(request, admitted?.permit, maxBytesOf(method))
      .then(decode)
      .catch(refuse);
    const values = createContextValues().set(admittedKey, admitted);
    const options = [signal, undefined, header] as const;
    if (method.methodKind !== "unary")
      return transport.stream(method, ...options, one(message), values);
    const result = await transport.unary(method, ...options, message, values);
    return { ...result, message: [result.message] };
  }

  /**
   * Serves a call until its end, whatever that is. The response headers are sent with its first
   * message or sign of life.
   */
  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const call = new AbortController();
    let result: Awaited<ReturnType<typeof start>> | undefined;
    let error: ConnectError | undefined;
    const envelope = (kind: number, content: Uint8Array) => {
      response.sendDate = false;
      response.shouldKeepAlive &&= server.listening;
      if (!response.headersSent)
        response.writeHead(result ? 200 : 400, Object.fromEntries(result?.header ?? []));
      const bytes = Buffer.allocUnsafe(protocol.HEAD_BYTES + content.length);
      bytes[0] = kind;
      bytes.writeUInt32BE(content.length, 1);
      bytes.set(content, protocol.HEAD_BYTES);
      return bytes;
    };
    response.setTimeout(ALIVE_INTERVAL_MS, () => {
      if (!result && !response.headersSent) response.writeProcessing();
      else if (!response.writableEnded) response.write(envelope(protocol.ALIVE, Buffer.alloc(0)));
    });
    response.once("close", () => calls.delete(call) && call.abort(CALL_ENDED));
    calls.add(call);
    try {
      result = await start(request, response, call.signal);
      for await (const message of result.message) {
        const isFull = !response.write(
          envelope(protocol.MESSAGE, toBinary(result.method.output, message)),
        );
        if (isFull) await once(response, "drain", { signal: call.signal });
      }
    } catch (thrown) {
      error = connectErrorOf(call.signal.aborted ? call.signal.reason : thrown);
    }
    if (response.destroyed) return;
    const end: protocol.End = { trailer: [...(error?.metadata ?? [])] };
    if (error)
      end.error = {
        code: error.code,
        message: error.rawMessage,
        failures: error.findDetails(FailureSchema),
      };
    response.end(envelope(protocol.END, Buffer.from(JSON.stringify(end))));
  }

  server.requestTimeout = server.headersTimeout = server.keepAliveTimeout = REQUEST_TIMEOUT_MS;
  server.maxRequestsPerSocket = MAX_CALLS;
  guard.watch(server);
  const handle: RequestListener = (request, response) =>
    void serve(request, response).catch(() => response.destroy());
  server.on(
    "request",
    countRequests(guard, handle, (_error, { socket }) => socket.destroy()),
  );
  await once(server.listen(at), "listening");
  const address = server.address();
  return {
    port: address !== null && typeof address === "object" ? address.port : 0,
    close: (graceMs) =>
      closeWithin(once(server.close(), "close"), graceMs, calls, () =>
        server.closeAllConnections(),
      ),
  };
}
