import type { IncomingHttpHeaders } from "node:http";
import {
  createSecureServer,
  createServer,
  type Http2Session,
  type SecureServerOptions,
  type ServerHttp2Session,
} from "node:http2";
import type { Socket } from "node:net";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../platform/errors.ts";

/** Concurrent calls of one connection, and of one that a gateway uses for all of its clients. */
const MAX_CONCURRENT_STREAMS = 250;
const MAX_GATEWAY_STREAMS = 10_000;
const OPTIONS = {
  settings: { maxConcurrentStreams: MAX_CONCURRENT_STREAMS },
  // In MB, of one connection. Node counts what disconnected clients did not read until the
  // connection ends. Above its default of 10 MB it refuses every call on it: all calls of a
  // gateway.
  maxSessionMemory: 1_024,
  // Resets of streams that a connection may have in a burst, and per second (CVE-2023-44487).
  streamResetBurst: 1_000,
  streamResetRate: 100,
};

/**
 * An HTTP/2 server with an idle timeout: it closes connections that have no open call for `idleMs`.
 */
export function createHttp2Server(tls: SecureServerOptions | undefined, idleMs: number) {
  const server = tls ? createSecureServer({ ...OPTIONS, ...tls }) : createServer(OPTIONS);
  const sockets = new Set<Socket>();
  const sessions = new Set<ServerHttp2Session>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("session", (session: ServerHttp2Session) => {
    let streams = 0;
    // Node does not clear its own session timer when the socket closes: the session would stay in
    // memory until it fires.
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
  });
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

const gatewaySessions = new WeakSet<Http2Session>();

/** Allows a connection the concurrent calls of a gateway. */
export function allowGatewayStreams(session: Http2Session | undefined): void {
  if (!session || gatewaySessions.has(session)) return;
  gatewaySessions.add(session);
  session.settings({ maxConcurrentStreams: MAX_GATEWAY_STREAMS });
}

/** Maximum deadline of a client: the longest time of a timer. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;
/** The units of `grpc-timeout` that can exceed it, in ms. */
const UNIT_MS: Record<string, number> = { H: 3_600_000, M: 60_000, S: 1_000 };

/**
 * Removes a timeout that no timer can run for, since Connect would start the timer.
 * @returns the error for its client
 */
export function refuseLongTimeout(headers: IncomingHttpHeaders): ServiceError | undefined {
  const { "grpc-timeout": grpc = "", "connect-timeout-ms": connect } = headers;
  const [, amount, unit = ""] = /^(\d+)([HMS])$/.exec(String(grpc)) ?? [];
  const isLong =
    Number(amount) * (UNIT_MS[unit] ?? 1) > MAX_TIMEOUT_MS || Number(connect) > MAX_TIMEOUT_MS;
  if (!isLong) return undefined;
  delete headers["grpc-timeout"];
  delete headers["connect-timeout-ms"];
  return new ServiceError(Reason.MALFORMED_REQUEST, `The maximum timeout is ${MAX_TIMEOUT_MS} ms.`);
}
