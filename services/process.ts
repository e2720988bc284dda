import cluster from "node:cluster";
import type { Config } from "./platform/config/config.ts";
import { systemClock } from "./platform/process/clock.ts";
import { loadEnvFile } from "./platform/process/env-file.ts";
import { listenOrExplain, removeStaleSocket } from "./platform/process/listen.ts";
import { collectGarbage } from "./platform/process/node.ts";
import { shutdownOnSignal } from "./platform/process/shutdown.ts";
import { readConfigOrExit, refuseStart } from "./platform/process/start.ts";
import { openWorkerLink } from "./platform/process/worker-link.ts";
import { runWorkers } from "./platform/process/workers.ts";
import { readInternalUrl } from "./platform/rpc/internal-protocol.ts";
import { createLog } from "./platform/telemetry/log.ts";
import { collectorOf, startMetrics } from "./platform/telemetry/metrics-server.ts";
import { openTracing } from "./platform/telemetry/tracing.ts";

/** The process of `npm run start:services`. */
loadEnvFile(process.env);
const { checksOf } = await import("./start-checks.ts");
const config = await readConfigOrExit(process.env, "services", checksOf);
try {
  await (config.workers > 1 && cluster.isPrimary ? startWorkers(config) : start(config));
} catch (error) {
  refuseStart([(error as Error).message]);
}

/** Prepares the database and starts the workers, each of which runs `start`. */
async function startWorkers(config: Config): Promise<void> {
  const log = createLog(config.logLevel);
  const { prepare } = await import("./prepare.ts");
  await prepare(config, { log, clock: systemClock });
  if (config.internalUrl) await clearInternalAddress(config.internalUrl);
  await collectGarbage();
  await runWorkers(config, log, () => {});
}

/** Serves, in this process or worker. */
async function start(config: Config): Promise<void> {
  const { internalSecret, internalUrl } = config;
  const link = openWorkerLink();
  const log = createLog(config.logLevel, link?.worker);
  const tracing = await openTracing(config.otelExporterOtlpEndpoint, "gatehouse-services");
  const { openApp } = await import("./app.ts");
  const { listenGrpc } = await import("./servers/grpc-server.ts");
  const { listenInternal } = await import("./servers/internal-server.ts");
  const app = await openApp(config, {
    ...{ log, clock: systemClock, internalSecret, tracing },
    ...{ hashSlots: link?.hashSlots, isPrepared: link !== undefined },
  });
  await collectGarbage();
  const server = await listenOrExplain("GRPC_HOST", "GRPC_PORT", () => listenGrpc(app, config));
  const options = { url: internalUrl ?? "", secret: internalSecret, tls: config.tls };
  if (internalUrl && !link) await clearInternalAddress(internalUrl);
  const internal = internalUrl
    ? await listenOrExplain("INTERNAL_URL", "INTERNAL_URL", () => listenInternal(app, options))
    : undefined;
  const registries = [app.metrics.registry];
  const metrics = await (link
    ? link.shareMetrics(config, registries)
    : startMetrics(config, () => collectorOf(registries)));
  const finish = async () => {
    app.drain();
    await Promise.all([
      server.close(config.shutdownTimeoutMs),
      internal?.close(config.shutdownTimeoutMs),
    ]);
    await metrics?.close();
  };
  shutdownOnSignal(finish, async () => {
    await app.close();
    await tracing?.close();
  });
  log.info(`gRPC, gRPC-Web and Connect on ${config.grpcHost}:${server.port}`);
  link?.announce({});
}

/** Removes the socket that a killed process has left. Only once, before any worker listens. */
async function clearInternalAddress(url: string): Promise<void> {
  const { at } = readInternalUrl(url);
  if ("path" in at) await removeStaleSocket(at.path);
}
