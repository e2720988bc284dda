import { setMaxListeners } from "node:events";
import { readFileSync } from "node:fs";
import type {
  Http2SecureServer,
  Http2Server,
  Http2ServerRequest,
  Http2ServerResponse,
  IncomingHttpHeaders,
  SecureServerOptions,
} from "node:http2";
import { createSecureServer, createServer } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { createSecureContext } from "node:tls";
import { Code, ConnectError, createContextValues } from "@connectrpc/connect";
import { compressionBrotli, compressionGzip, connectNodeAdapter } from "@connectrpc/connect-node";
import { ServerReflection } from "../gen/grpc/reflection/v1/reflection_pb.ts";
import { Health } from "../gen/health/v1/health_pb.ts";
import type { App } from "./app.ts";
import type { Config } from "./config.ts";
import { services } from "./index.ts";
import { peerKey, saneRequestId } from "./interceptors/open-call.ts";
import { reflectionHandler } from "./reflection.ts";
import { plainAddress } from "./security/address.ts";
import { bounded, keepEnding, tellUnreadable } from "./unreadable.ts";

/** Largest message in bytes, compressed or not, of methods without a policy: health and reflection. */
const MAX_MESSAGE_BYTES = 64 * 1024;
const COMPRESSIONS = [compressionGzip, compressionBrotli];
const ENCODINGS = COMPRESSIONS.map(({ name }) => name).join();
/** Calls at once on one connection. */
const MAX_STREAMS = 1_000;

/** Units of a gRPC deadline that can be too long. */
const SECONDS: Record<string, number> = { H: 3_600, M: 60, S: 1 };
const LONGEST_TIMER_S = 2_147_483;

/** What calls that were ended have to say so, in ms, before their connections are cut. */
const FAREWELL_MS = 1_000;
const SHUTTING_DOWN = new ConnectError("The service is shutting down.", Code.Unavailable);

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
): Promise<GrpcServer> {
  const { host, port, tls, reflection } = config.grpc;
  const shutdown = new AbortController();
  setMaxListeners(0, shutdown.signal); // one for each open call
  const handler = connectNodeAdapter({
    routes(router) {
      app.routes(bounded(router));
      if (reflection) router.service(ServerReflection, reflectionHandler([...services, Health]));
      tellUnreadable(router.handlers);
    },
    interceptors: app.interceptors,
    requestGate: keepEnding,
    acceptCompression: COMPRESSIONS,
    readMaxBytes: MAX_MESSAGE_BYTES,
    shutdownSignal: shutdown.signal,
    contextValues: (req) => createContextValues().set(peerKey, plainAddress(req.socket?.remoteAddress ?? "")),
  });
  // Names the request before anybody looks at it, so that its answer, the log and the audit log say the same.
  const named = (req: Http2ServerRequest, res: Http2ServerResponse) => {
    const id = saneRequestId(req.headers["x-request-id"]);
    req.headers["x-request-id"] = id;
    res.setHeader("x-request-id", id);
    res.setHeader("grpc-accept-encoding", ENCODINGS); // whoever is refused another one has to be told
    dropEndlessDeadline(req.headers);
    try {
      handler(req, res);
    } catch {
      res.writeHead(400);
      res.end(); // an authority that is none, such as "["
    }
  };
  const settings = { settings: { maxConcurrentStreams: MAX_STREAMS } };
  const server: Http2Server | Http2SecureServer = tls
    ? createSecureServer({ ...settings, ...readTls(tls) }, named)
    : createServer(settings, named);
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  const sessions = new Set<{ close(): void }>();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    session.on("error", () => {}); // a client's broken connection is its own affair
  });
  server.on("sessionError", () => {});
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

/** A deadline that no timer can run for is none; Node would take it for the next millisecond. */
function dropEndlessDeadline(headers: IncomingHttpHeaders): void {
  const [, count, unit = ""] = /^(\d+)([HMS])$/.exec(String(headers["grpc-timeout"])) ?? [];
  if (Number(count) * (SECONDS[unit] ?? 0) > LONGEST_TIMER_S) delete headers["grpc-timeout"];
  if (Number(headers["connect-timeout-ms"]) > LONGEST_TIMER_S * 1_000) delete headers["connect-timeout-ms"];
}

function readTls({ cert, key, ca }: NonNullable<Config["grpc"]["tls"]>): SecureServerOptions {
  try {
    const files = { cert: readFileSync(cert), key: readFileSync(key), ...(ca && { ca: readFileSync(ca) }) };
    createSecureContext(files); // refuses what is no certificate, or no key of it
    return { ...files, ...(ca && { requestCert: true, rejectUnauthorized: true }) };
  } catch (error) {
    throw new Error(`GRPC_TLS_CERT, GRPC_TLS_KEY or GRPC_TLS_CA can't be used: ${(error as Error).message}`);
  }
}
