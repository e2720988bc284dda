import type { Http2SecureServer, Http2Server, ServerHttp2Session } from "node:http2";
import { createSecureServer, createServer } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { App } from "../app.ts";
import type { Config } from "../platform/config.ts";
import { shuttingDown, toConnectError } from "../platform/errors.ts";
import { readTlsFiles } from "../platform/tls.ts";
import type { Room } from "../process/room.ts";
import { createAdapter } from "./adapter.ts";
import { boundConnections } from "./connections.ts";
import { PATIENCE, stopTimer } from "./patience.ts";

/** Calls at once on one connection. */
const MAX_STREAMS = 1_000;

/**
 * What a connection may hold for its reader, in megabytes. Node counts in what readers who left did not take, to the end
 * of the connection; past its own limit of 10 it would refuse whoever shares that connection, all clients of a gateway.
 */
const MAX_SESSION_MB = 1_024;

/** What calls that were ended have to say so, in ms, before their connections are cut. */
const FAREWELL_MS = 1_000;
const SHUTTING_DOWN = toConnectError(shuttingDown());

/** A listening gRPC server. */
export type GrpcServer = {
  port: number;
  /** No new calls; open ones get `graceMs`, then end. */
  close(graceMs: number): Promise<void>;
};

/**
 * Serves gRPC, gRPC-Web and Connect on one port: cleartext HTTP/2, or TLS where a certificate is given.
 * @throws Error for operators, if a file can't be read or the port can't be had
 */
export async function listenGrpc(
  app: Pick<App, "routes" | "interceptors">,
  config: Pick<Config, "grpc">,
  room: Room,
  patience = PATIENCE,
): Promise<GrpcServer> {
  const { host, port, tls, reflection } = config.grpc;
  const shutdown = new AbortController();
  const answer = createAdapter(app, { reflection, room, patience, shutdownSignal: shutdown.signal });
  const settings = { settings: { maxConcurrentStreams: MAX_STREAMS }, maxSessionMemory: MAX_SESSION_MB };
  const server: Http2Server | Http2SecureServer = tls
    ? createSecureServer(
        { ...settings, ...readTlsFiles(tls), ...(tls.ca && { requestCert: true, rejectUnauthorized: true }) },
        answer,
      )
    : createServer(settings, answer);
  boundConnections(server, room.connections);
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  const sessions = new Set<{ close(): void }>();
  server.on("session", (session: ServerHttp2Session) => {
    sessions.add(session);
    session.on("close", () => {
      sessions.delete(session);
      stopTimer(session);
    });
    session.on("error", () => {}); // a client's broken connection is its own affair
  });
  server.on("sessionError", () => {});
  server.setTimeout(patience.idleMs, (session?: { close(): void }) => session?.close());
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async close(graceMs) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const session of sessions) session.close();
      const overdue = [
        setTimeout(() => shutdown.abort(SHUTTING_DOWN), graceMs),
        // Not the sessions: of the calls on a session that is destroyed, clients hear of one alone.
        setTimeout(() => {
          for (const socket of sockets) socket.destroy();
        }, graceMs + FAREWELL_MS),
      ];
      await closed;
      for (const timer of overdue) clearTimeout(timer);
    },
  };
}
