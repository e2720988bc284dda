import http2 from "node:http2";
import type { AddressInfo } from "node:net";
import type { DescService } from "@bufbuild/protobuf";
import type { Code, ConnectRouter, Interceptor, Transport } from "@connectrpc/connect";
import { ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { pino } from "pino";
import { afterEach, expect } from "vitest";
import type { StartSpan } from "../../gateway/hooks/instrument-requests.ts";
import { createGateway, type Gateway } from "../../gateway/server.ts";
import { createInternalTransport } from "../../gateway/transport/internal.ts";
import { createServicesTransport } from "../../gateway/transport/services.ts";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import type { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { FailureSchema } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { listenInternal } from "../../services/internal-server.ts";
import { type Config, readConfig } from "../../services/platform/config.ts";
import { createInProcessTransport } from "../../services/platform/in-process.ts";
import { type HttpResponse, sendHttp } from "./http-client.ts";

/** The transports from gateway to services. All must behave the same. */
export const transportKinds = ["in process", "over gRPC", "over the internal listener"] as const;
export type TransportKind = (typeof transportKinds)[number];
const SECRET = "shared-by-gateway-and-services";
export type Routes = (router: ConnectRouter) => unknown;

/** Stub services and the transport to them. */
export type StubServices = { transport: Transport; close: () => Promise<void> };

/** Starts stub services that `routes` implements. */
export async function startStubServices(
  transportKind: TransportKind,
  routes: Routes,
  interceptors: Interceptor[] = [],
): Promise<StubServices> {
  if (transportKind === "in process") {
    return { transport: createInProcessTransport(routes, interceptors), close: () => Promise.resolve() };
  }
  if (transportKind === "over the internal listener") {
    const app = { routes, interceptors };
    const server = await listenInternal(app, {
      url: "tcp://127.0.0.1:0",
      secret: SECRET,
      tls: null,
      log: { warn() {} },
    });
    const transport = createInternalTransport(`tcp://127.0.0.1:${server.port}`, SECRET);
    const close = async () => {
      transport.close();
      await server.close(0);
    };
    return { transport, close };
  }
  const sessions = new Set<http2.Http2Session>();
  const answer = connectNodeAdapter({ routes: (r) => void routes(r), interceptors });
  const server = http2.createServer(answer);
  server.on("session", (session) => sessions.add(session));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const transport = createServicesTransport(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return {
    transport,
    close: async () => {
      transport.close();
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A gateway that listens, and what it has logged. */
export type Started = {
  gateway: Gateway;
  url: string;
  port: number;
  /** Log lines, parsed. */
  logs: Record<string, unknown>[];
  /** Sends a request; `body` as JSON unless it is text or bytes. */
  send: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<HttpResponse>;
  /** Takes the services away. */
  stopServices: () => Promise<void>;
  close: () => Promise<void>;
};

export type Settings = {
  transportKind?: TransportKind;
  interceptors?: Interceptor[];
  env?: Record<string, string>;
  services?: DescService[];
  keepAliveMs?: number;
  requestTimeoutMs?: number;
  writeTimeoutMs?: number;
  clock?: { now: () => Date };
  startSpan?: StartSpan;
};

/** Starts a gateway before services that `routes` plays. */
export async function start(routes: Routes, settings: Settings = {}): Promise<Started> {
  const { transportKind = "in process", interceptors, env, ...options } = settings;
  const stub = await startStubServices(transportKind, routes, interceptors);
  const logs: Record<string, unknown>[] = [];
  const log = pino({ level: "debug" }, { write: (line: string) => void logs.push(JSON.parse(line)) });
  const gateway = createGateway({ config: configOf(env), transport: stub.transport, log, ...options });
  let stopped: Promise<void> | undefined;
  const stopServices = () => {
    stopped ??= stub.close();
    return stopped;
  };
  const url = await gateway.listen({ host: "127.0.0.1", port: 0 });
  return {
    gateway,
    url,
    port: Number(new URL(url).port),
    logs,
    send: (method, path, body, headers) => sendHttp(url, method, path, body, headers),
    stopServices,
    close: async () => {
      await gateway.drain();
      await stopServices();
    },
  };
}

/** Headers of every answer of the API, those to unreadable requests included. */
export const commonHeaders = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "x-request-id": expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
};

/** A configuration with a grace that tests can wait for. */
export function configOf(env: Record<string, string> = {}): Config {
  const read = readConfig({ SHUTDOWN_TIMEOUT: "0ms", ...env });
  if ("problems" in read) throw new Error(read.problems.join("; "));
  return read.config;
}

/** A failure as the services tell it. */
export function failWith(
  reason: Reason,
  code: Code,
  message = "told",
  facts: { violations?: { field: string; message: string }[]; retryAfterSeconds?: number } = {},
  metadata?: Record<string, string>,
): ConnectError {
  return new ConnectError(message, code, metadata, [{ desc: FailureSchema, value: { reason, ...facts } }]);
}

/** The time at every gateway of these suites. */
export const NOW = new Date("2026-11-21T12:00:00Z");

/** For a suite whose tests each open a gateway of their own, which is closed after them. */
export function openGateways(transportKind: TransportKind) {
  let server: Started;
  afterEach(() => server.close());
  const open = async (routes: Routes, settings: Settings = {}) => {
    server = await start(routes, { transportKind, clock: { now: () => NOW }, ...settings });
  };
  return {
    open,
    /** Opens one before services that fail to sign in and to refresh. */
    failing(error: () => unknown, settings?: Settings) {
      const fail = () => {
        throw error();
      };
      return open((router) => router.service(AuthService, { login: fail, refresh: fail }), settings);
    },
    send: (...request: Parameters<Started["send"]>) => server.send(...request),
    login: () => server.send("POST", "/auth/login", { email: "a@b.cd", password: "x" }),
    get logs() {
      return server.logs;
    },
  };
}
