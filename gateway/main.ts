import { randomBytes } from "node:crypto";
import type { AppOptions } from "../services/app.ts";
import type { Config } from "../services/platform/config/config.ts";
import { systemClock } from "../services/platform/process/clock.ts";
import { loadEnvFile } from "../services/platform/process/env-file.ts";
import { listenOrExplain } from "../services/platform/process/listen.ts";
import { collectGarbage, prepareNode } from "../services/platform/process/node.ts";
import { shutdownOnSignal } from "../services/platform/process/shutdown.ts";
import { readConfigOrExit, refuseStart } from "../services/platform/process/start.ts";
import { createInProcessTransport } from "../services/platform/rpc/in-process.ts";
import { createLog } from "../services/platform/telemetry/log.ts";
import { startMetrics } from "../services/platform/telemetry/metrics-server.ts";
import { openTracing } from "../services/platform/telemetry/tracing.ts";
import { createInternalTransport } from "./transport/internal.ts";
import { createServicesTransport } from "./transport/services.ts";

/**
 * Entry point of `npm start`: runs gateway and services, or the gateway alone if SERVICES_URL is set.
 * With the argument `gateway` (`npm run start:gateway`), SERVICES_URL is mandatory. Large modules are
 * only loaded after Node is prepared.
 */
prepareNode();
loadEnvFile(process.env);
const isAlone = process.argv[2] === "gateway" || Boolean(process.env.SERVICES_URL?.trim());
const { checksOf } = isAlone ? {} : await import("../services/start-checks.ts");
const config = await readConfigOrExit(process.env, isAlone ? "gateway" : "all", checksOf);
try {
  await start(config);
} catch (error) {
  refuseStart([(error as Error).message]);
}

async function start(config: Config): Promise<void> {
  const { host, port, grpcHost, servicesUrl } = config;
  const log = createLog(config.logLevel);
  const logRequests = config.logRequests ?? (process.stdout.isTTY ? "api" : "all");
  const internalSecret = config.internalSecret ?? randomBytes(32).toString("base64url"); // known to this process only
  const tracing = await openTracing(
    config.otelExporterOtlpEndpoint,
    servicesUrl ? "gatehouse-gateway" : "gatehouse",
  );
  const options = { log, clock: systemClock, internalSecret, tracing };
  const services = await (servicesUrl
    ? connectServices(servicesUrl, config, options)
    : openServices(config, options));
  const [{ createGateway }, { isWebBuilt }] = await Promise.all([
    import("./server.ts"),
    import("./web.ts"),
  ]);
  const gateway = createGateway({
    config: { ...config, internalSecret, logRequests },
    ...services,
    log,
    startSpan: tracing?.start,
  });
  await collectGarbage();
  const grpcServer = await services.listen();
  const metrics = await startMetrics(config, [gateway.metrics, ...services.registries]);
  const url = await listenOrExplain("HOST", "PORT", () => gateway.listen({ host, port }));
  const drain = async () => {
    services.drain();
    await Promise.all([gateway.drain(), grpcServer?.close(config.shutdownTimeoutMs)]);
    await metrics?.close();
  };
  shutdownOnSignal(drain, async () => {
    await services.close();
    await tracing?.close();
  });
  // The public URL, since only its pages get cookies and may send requests.
  const publicUrl = config.publicUrl === "http://localhost:0" ? url : config.publicUrl;
  const hasWeb = config.web && isWebBuilt;
  const { setupToken } = services;
  printBanner(config.appName, url, {
    grpc: grpcServer && `${grpcHost}:${grpcServer.port}`,
    webApp: hasWeb ? `${publicUrl}/` : undefined,
    docs: config.docs ? `${publicUrl}/docs` : undefined,
    firstAdministrator:
      hasWeb && setupToken ? `${publicUrl}/register#setup=${setupToken}` : undefined,
  });
}

/** Connects to services in another process. */
async function connectServices(url: string, config: Config, options: AppOptions) {
  const tls = config.tls;
  const overGrpc = /^http/i.test(url);
  const transport = overGrpc
    ? createServicesTransport(url, tls)
    : createInternalTransport(url, options.internalSecret ?? "", tls);
  const { openStandaloneGate } = await import("./server.ts");
  const checks = await openStandaloneGate(config, transport, options);
  const close = () => {
    checks.redis?.close();
    transport.close();
  };
  return {
    ...{ transport, checks, registries: [], setupToken: undefined },
    ...{ listen: () => undefined, drain() {}, close },
  };
}

/**
 * Opens the services in this process. Their code is loaded only here, since a standalone gateway needs
 * none of it.
 */
async function openServices(config: Config, options: AppOptions) {
  const [{ openApp }, { listenGrpc }] = await Promise.all([
    import("../services/app.ts"),
    import("../services/servers/grpc-server.ts"),
  ]);
  const app = await openApp(config, options);
  return {
    transport: createInProcessTransport(app.routes, app.interceptors),
    checks: app,
    registries: [app.metrics.registry],
    setupToken: app.setupToken,
    listen: () => listenOrExplain("GRPC_HOST", "GRPC_PORT", () => listenGrpc(app, config)),
    drain: app.drain,
    close: app.close,
  };
}

/** What a process serves beside REST, each at its address. */
type Served = Record<"grpc" | "webApp" | "docs" | "firstAdministrator", string | undefined>;

/** For people, on standard error: standard output carries the log. */
function printBanner(name: string, url: string, served: Served): void {
  const { grpc, webApp, docs, firstAdministrator } = served;
  const rows = [
    ["Web app", webApp],
    ["API reference", docs],
    ["API", `REST and server-sent events on ${url}${grpc ? `, gRPC on ${grpc}` : ""}`],
    ["First administrator", firstAdministrator],
  ];
  const lines = rows.flatMap(([title = "", text]) =>
    text ? [`  ${`${title}:`.padEnd(21)}${text}`] : [],
  );
  process.stderr.write(`\n${name} is ready.\n\n${lines.join("\n")}\n\n`);
}
