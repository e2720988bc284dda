import type { IncomingHttpHeaders } from "node:http";
import {
  createSecureServer,
  createServer,
  type Http2Session,
  type SecureServerOptions,
  type ServerHttp2Session,
} from "node:http2";
import type { Socket } from "node:net";
import type { Interceptor } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../platform/errors.ts";

/** Concurrent calls of one connection, and of one that a gateway uses for all of its clients. */
const MAX_CONCURRENT_STREAMS = 250;
const MAX_GATEWAY_STREAMS = 10_000;
/** Resets of streams that a connection may have in a burst, and per second (CVE-2023-44487). */
const STREAM_RESETS = { streamResetBurst: 1_000, streamResetRate: 100 };
/**
 * Session memory of one connection, in MB. Node counts what disconnected clients did not read until the connection ends.
 * Above its default of 10 MB it refuses every call on it: all calls of a gateway.
 */
const MAX_SESSION_MEMORY_MB = 1_024;

/** An HTTP/2 server with an idle timeout: it closes connections that have no open call for `idleMs`. */
export function createHttp2Server(tls: SecureServerOptions | undefined, idleMs: number) {
  const options = {
    settings: { maxConcurrentStreams: MAX_CONCURRENT_STREAMS },
    maxSessionMemory: MAX_SESSION_MEMORY_MB,
    ...STREAM_RESETS,
  };
  const server = tls ? createSecureServer({ ...options, ...tls }) : createServer(options);
  const sockets = new Set<Socket>();
  const sessions = new Set<ServerHttp2Session>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("session", (session: ServerHttp2Session) => {
    let streams = 0;
    // Node does not clear its own session timer when the socket closes: the session would stay in memory until it fires.
    const idle = setTimeout(() => streams === 0 && session.close(), idleMs);
    sessions.add(session);
    session.on("stream", (stream) => {
      streams++;
      stream.once("close", () => {
        streams--;
        if (!session.destroyed) idle.refresh();
      });
    });
    session.once("close", () => {
      clearTimeout(idle);
      sessions.delete(session);
    });
    session.on("error", () => {}); // the connection of a client broke
  });
  server.on("sessionError", () => {});
  return {
    server,
    /** Lets every connection end with its last call. */
    drain(): void {
      for (const session of sessions) session.close();
    },
    /** Closes every socket. Destroying the sessions would report only one call to each client. */
    cut(): void {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/**
 * Aborts the calls in progress on shutdown. Connect's `shutdownSignal` does the same, but looks through all open calls
 * whenever one starts or ends.
 */
export function abortOnShutdown(shutdown: AbortSignal): Interceptor {
  const open = new Set<AbortController>();
  shutdown.addEventListener("abort", () => {
    for (const call of open) call.abort(shutdown.reason);
  });
  return (next) => (req) => {
    const call = new AbortController();
    const onEnd = () => {
      open.delete(call);
      call.abort(req.signal.reason);
    };
    open.add(call);
    req.signal.addEventListener("abort", onEnd);
    if (req.signal.aborted) onEnd();
    if (shutdown.aborted) call.abort(shutdown.reason);
    return next({ ...req, signal: call.signal });
  };
}

const gatewaySessions = new WeakSet<Http2Session>();

/** Allows a connection the concurrent calls of a gateway. */
export function allowGatewayStreams(session: Http2Session | undefined): void {
  if (!session || gatewaySessions.has(session)) return;
  gatewaySessions.add(session);
  session.settings({ maxConcurrentStreams: MAX_GATEWAY_STREAMS });
}

/** Maximum deadline of a client: the longest time of a timer. */
export const MAX_TIMEOUT_MS = 2 ** 31 - 1;
/** Units of `grpc-timeout` in ms. */
const UNIT_MS: Record<string, number> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 };

/**
 * Refuses a timeout that no timer can run for. Connect 2.2 refuses it too, but starts its timer first: the header is removed.
 * @returns the error for the client, if there is one
 */
export function refuseLongTimeout(headers: IncomingHttpHeaders): ServiceError | undefined {
  const [, amount, unit = ""] = /^(\d+)([HMSmun])$/.exec(String(headers["grpc-timeout"])) ?? [];
  const timeouts = {
    "grpc-timeout": Number(amount) * (UNIT_MS[unit] ?? 1),
    "connect-timeout-ms": Number(headers["connect-timeout-ms"]),
  };
  const long = Object.entries(timeouts).filter(([, ms]) => ms > MAX_TIMEOUT_MS);
  for (const [name] of long) delete headers[name];
  const [first] = long;
  return first && new ServiceError(Reason.MALFORMED_REQUEST, `${first[0]}: the maximum is ${MAX_TIMEOUT_MS} ms.`);
}
