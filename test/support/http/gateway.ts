// A gateway in this process with stub services behind each transport.

import http2 from "node:http2";
import {
  type Code,
  ConnectError,
  type ConnectRouter,
  type Interceptor,
  type Transport,
} from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { pino } from "pino";
import { expect } from "vitest";
import { createGateway, type GatewayOptions } from "../../../gateway/server.ts";
import { createInternalTransport } from "../../../gateway/transport/internal.ts";
import { createServicesTransport } from "../../../gateway/transport/services.ts";
import { FailureSchema, type Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { requireConfig } from "../../../services/platform/config/config.ts";
import { createInProcessTransport } from "../../../services/platform/rpc/in-process.ts";
import { listenInternal } from "../../../services/servers/internal-server.ts";
import { listen } from "../network/sockets.ts";
import { forSuite } from "../suites.ts";
import { sendHttp } from "./client.ts";

/** The transports from gateway to services. All must behave the same. */
export const transportKinds = ["in process", "over gRPC", "over the internal listener"] as const;
export type TransportKind = (typeof transportKinds)[number];
/** What gateway and services of one process share. */
export const SECRET = "shared-by-gateway-and-services";
export type Routes = (router: ConnectRouter) => unknown;

/**
 * Serves routes by the internal listener.
 * @param options of the transport to it
 */
export async function startInternal(
  app: Parameters<typeof listenInternal>[0],
  options: { silenceMs?: number } = {},
) {
  const server = await listenInternal(app, { url: "tcp://127.0.0.1:0", secret: SECRET, tls: {} });
  const transport = createInternalTransport(`tcp://127.0.0.1:${server.port}`, SECRET, options);
  const close = async (graceMs = 0) => {
    transport.close();
    await server.close(graceMs);
  };
  return { transport, close };
}

/**
 * Starts stub services.
 * @param routes their handlers
 * @param options of the transport to the internal listener
 */
export async function startStubServices(
  transportKind: TransportKind,
  routes: Routes,
  interceptors: Interceptor[] = [],
  options: { silenceMs?: number } = {},
): Promise<{ transport: Transport; close: () => Promise<void> }> {
  if (transportKind === "in process") {
    return {
      transport: createInProcessTransport(routes, interceptors),
      close: () => Promise.resolve(),
    };
  }
  if (transportKind === "over the internal listener")
    return startInternal({ routes, interceptors }, options);
  const sessions = new Set<http2.Http2Session>();
  const answer = connectNodeAdapter({ routes: (r) => void routes(r), interceptors });
  const server = http2.createServer(answer);
  server.on("session", (session) => sessions.add(session));
  const transport = createServicesTransport(`http://127.0.0.1:${await listen(server)}`);
  return {
    transport,
    close: async () => {
      transport.close();
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export type Settings = Partial<Omit<GatewayOptions, "config" | "transport" | "checks" | "log">> & {
  transportKind?: TransportKind;
  interceptors?: Interceptor[];
  env?: Record<string, string>;
};

/**
 * Starts a gateway that shuts down at once.
 * @param transport to its services
 */
export async function startGateway(
  transport: Transport,
  { env, ...options }: Omit<Settings, "transportKind" | "interceptors"> = {},
) {
  const logs: Record<string, unknown>[] = [];
  const log = pino(
    { level: "debug" },
    { write: (line: string) => void logs.push(JSON.parse(line)) },
  );
  const config = requireConfig({ SHUTDOWN_TIMEOUT: "0ms", ...env });
  const gateway = createGateway({ config, transport, log, ...options });
  const url = await gateway.listen({ host: "127.0.0.1", port: 0 });
  return {
    gateway,
    url,
    port: Number(new URL(url).port),
    /** Log lines, parsed. */
    logs,
    /** Sends a request; `body` as JSON unless it is text or bytes. */
    send: (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
      sendHttp(url, method, path, body, headers),
    close: () => gateway.drain(),
  };
}

/**
 * Starts a gateway with stub services.
 * @param routes the handlers of the services
 */
export async function start(
  routes: Routes,
  { transportKind = "in process", interceptors, ...options }: Settings = {},
) {
  const stub = await startStubServices(transportKind, routes, interceptors);
  const gateway = await startGateway(stub.transport, options);
  const close = async () => {
    await gateway.close();
    await stub.close();
  };
  /** `stopServices` stops the services, and not the gateway. */
  return { ...gateway, stopServices: stub.close, close };
}

/** Starts a gateway for one suite, and closes it after the suite. */
export const startSuiteGateway = (routes: Routes, settings?: Settings) =>
  forSuite(start(routes, settings));

/** Headers of every response of the API, also of responses to unreadable requests. */
export const commonHeaders = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "x-request-id": expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
};

/** A failure as the services report it. */
export function failWith(
  reason: Reason,
  code: Code,
  message = "It failed.",
  facts: { violations?: { field: string; message: string }[]; retryAfterSeconds?: number } = {},
  metadata?: Record<string, string>,
): ConnectError {
  return new ConnectError(message, code, metadata, [
    { desc: FailureSchema, value: { reason, ...facts } },
  ]);
}
