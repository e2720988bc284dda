import type { Http2SecureServer, Http2Server, Http2Session, SecureServerOptions, ServerHttp2Session } from "node:http2";
import { createSecureServer, createServer } from "node:http2";
import type { Socket } from "node:net";

/** Concurrent calls of one connection, and of one that a gateway uses for all of its clients. */
const MAX_CONCURRENT_STREAMS = 250;
const MAX_GATEWAY_STREAMS = 10_000;
/** Resets of streams that a connection may have in a burst, and per second (CVE-2023-44487). */
const STREAM_RESETS = { streamResetBurst: 1_000, streamResetRate: 100 };
/**
 * Memory of one connection in MB. Node counts what clients who left did not read until the connection ends, and beyond its
 * default of 10 refuses every call on it: a gateway's whole traffic.
 */
const MAX_SESSION_MEMORY_MB = 1_024;

export type Connections = {
  server: Http2Server | Http2SecureServer;
  /** Has every connection end with its last call. */
  drain(): void;
  /** Ends every connection. Not their sessions: the clients of a destroyed one are told of a single call. */
  cut(): void;
};

/** An HTTP/2 server with an idle timeout: it closes connections that have no open call for `idleMs`. */
export function createHttp2Server(tls: SecureServerOptions | undefined, idleMs: number): Connections {
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
    // Node's own timer of a session is not cleared when its connection is cut, and would hold the session until it fires.
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
    session.on("error", () => {}); // a client's broken connection
  });
  server.on("sessionError", () => {});
  return {
    server,
    drain() {
      for (const session of sessions) session.close();
    },
    cut() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/**
 * Makes the signal of each call: it fires when the client has left, or on shutdown. Connect's `shutdownSignal` does the same,
 * but looks through all open calls whenever one starts or ends.
 */
export function linkToShutdown(shutdown: AbortSignal): (client: AbortSignal) => AbortSignal {
  const open = new Set<AbortController>();
  shutdown.addEventListener("abort", () => {
    for (const call of open) call.abort(shutdown.reason);
  });
  return (client) => {
    const call = new AbortController();
    const onClose = () => {
      open.delete(call);
      call.abort(client.reason);
    };
    open.add(call);
    client.addEventListener("abort", onClose);
    if (client.aborted) onClose();
    if (shutdown.aborted) call.abort(shutdown.reason);
    return call.signal;
  };
}

const gatewaySessions = new WeakSet<Http2Session>();

/** Allows a connection the concurrent calls of a gateway. */
export function allowGatewayStreams(session: Http2Session | undefined): void {
  if (!session || gatewaySessions.has(session)) return;
  gatewaySessions.add(session);
  session.settings({ maxConcurrentStreams: MAX_GATEWAY_STREAMS });
}
