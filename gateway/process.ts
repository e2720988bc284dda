import cluster from "node:cluster";
import { randomBytes } from "node:crypto";
import type { AppOptions } from "../services/app.ts";
import type { Config } from "../services/platform/config/config.ts";
import { systemClock } from "../services/platform/process/clock.ts";
import { loadEnvFile } from "../services/platform/process/env-file.ts";
import { listenOrExplain } from "../services/platform/process/listen.ts";
import { collectGarbage } from "../services/platform/process/node.ts";
import { shutdownOnSignal } from "../services/platform/process/shutdown.ts";
import { readConfigOrExit, refuseStart } from "../services/platform/process/start.ts";
import { openWorkerLink, type Served } from "../services/platform/process/worker-link.ts";
import { runWorkers } from "../services/platform/process/workers.ts";
import { createInProcessTransport } from "../services/platform/rpc/in-process.ts";
import { createLog } from "../services/platform/telemetry/log.ts";
import { collectorOf, startMetrics } from "../services/platform/telemetry/metrics-server.ts";
import { openTracing } from "../services/platform/telemetry/tracing.ts";
import { createInternalTransport } from "./transport/internal.ts";
import { createServicesTransport } from "./transport/services.ts";

/**
 * The process of `npm start`: runs gateway and services, or the gateway alone if SERVICES_URL is
 * set. With the argument `gateway` (`npm run start:gateway`), SERVICES_URL is mandatory.
 */
loadEnvFile(process.env);
const isAlone = process.argv[2] === "gateway" || Boolean(process.env.SERVICES_URL?.trim());
const { checksOf } = isAlone ? {} : await import("../services/start-checks.ts");
const config = await readConfigOrExit(process.env, isAlone ? "gateway" : "all", checksOf);
try {
  await (config.workers > 1 && cluster.isPrimary ? startWorkers(config) : start(config));
} catch (error) {
  refuseStart([(error as Error).message]);
}

/** Prepares the database and starts the workers, each of which runs `start`. */
async function startWorkers(config: Config): Promise<void> {
  const log = createLog(config.logLevel);
  const { prepare } = isAlone ? {} : await import("../services/prepare.ts");
  const setupToken = await prepare?.(config, { log, clock: systemClock });
  await collectGarbage();
  await runWorkers(config, log, (served) => printBanner(config, served, setupToken));
}

/** Serves, in this process or worker. */
async function start(config: Config): Promise<void> {
  const { host, port, grpcHost, servicesUrl } = config;
  const link = openWorkerLink();
  const log = createLog(config.logLevel, link?.worker);
  const logRequests = config.logRequests ?? (process.stdout.isTTY ? "api" : "all");
  const internalSecret = config.internalSecret ?? randomBytes(32).toString("base64url"); // known to this process only
  const tracing = await openTracing(
    config.otelExporterOtlpEndpoint,
    servicesUrl ? "gatehouse-gateway" : "gatehouse",
  );
  const options = {
    ...{ log, clock: systemClock, internalSecret, tracing },
    ...{ hashSlots: link?.hashSlots, isPrepared: link !== undefined },
  };
  const services = await (servicesUrl
    ? connectServices(servicesUrl, config, options)
    : openServices(config, options));
  const [{ createGateway }, { servesWeb }] = await Promise.all([
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
  const registries = [gateway.metrics, ...services.registries];
  const metrics = await (link
    ? link.shareMetrics(config, registries)
    : startMetrics(config, () => collectorOf(registries)));
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
  const served = {
    rest: url,
    grpc: grpcServer && `${grpcHost}:${grpcServer.port}`,
    hasWeb: servesWeb(config),
  };
  if (link) link.announce(served);
  else printBanner(config, served, services.setupToken);
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
 * Opens the services in this process. Their code is loaded only here, since a standalone gateway
 * needs none of it.
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

/**
 * Prints the URLs for people, on standard error because standard output carries the log.
 * @param setupToken token of the link that creates the first administrator
 */
function printBanner(
  config: Config,
  { rest = "", grpc, hasWeb }: Served,
  setupToken: string | undefined,
): void {
  // Print the public URL, since only pages of that origin get cookies and may send requests.
  const publicUrl = config.publicUrl === "http://localhost:0" ? rest : config.publicUrl;
  const firstAdministrator = hasWeb && setupToken && `${publicUrl}/register#setup=${setupToken}`;
  const rows = [
    ["Web app", hasWeb && `${publicUrl}/`],
    ["API reference", config.docs && `${publicUrl}/docs`],
    ["API", `REST and server-sent events on ${rest}${grpc ? `, gRPC on ${grpc}` : ""}`],
    ["First administrator", firstAdministrator],
  ] as const;
  const lines = rows.flatMap(([title, text]) =>
    text ? [`  ${`${title}:`.padEnd(21)}${text}`] : [],
  );
  process.stderr.write(`\n${config.appName} is ready.\n\n${lines.join("\n")}\n\n`);
}
