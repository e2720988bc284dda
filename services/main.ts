import { systemClock } from "./platform/process/clock.ts";
import { loadEnvFile } from "./platform/process/env-file.ts";
import { listenOrExplain } from "./platform/process/listen.ts";
import { collectGarbage, prepareNode } from "./platform/process/node.ts";
import { shutdownOnSignal } from "./platform/process/shutdown.ts";
import { readConfigOrExit, refuseStart } from "./platform/process/start.ts";
import { createLog } from "./platform/telemetry/log.ts";
import { startMetrics } from "./platform/telemetry/metrics-server.ts";
import { openTracing } from "./platform/telemetry/tracing.ts";

/** Entry point of `npm run start:services`. Large modules are only loaded after Node is prepared. */
prepareNode();
loadEnvFile(process.env);
const { checksOf } = await import("./start-checks.ts");
const config = await readConfigOrExit(process.env, "services", checksOf);
try {
  const { internalSecret, internalUrl } = config;
  const log = createLog(config.logLevel);
  const tracing = await openTracing(config.otelExporterOtlpEndpoint, "gatehouse-services");
  const { openApp } = await import("./app.ts");
  const { listenGrpc } = await import("./servers/grpc-server.ts");
  const { listenInternal } = await import("./servers/internal-server.ts");
  const app = await openApp(config, { log, clock: systemClock, internalSecret, tracing });
  await collectGarbage();
  const server = await listenOrExplain("GRPC_HOST", "GRPC_PORT", () => listenGrpc(app, config));
  const options = { url: internalUrl ?? "", secret: internalSecret, tls: config.tls };
  const internal = internalUrl
    ? await listenOrExplain("INTERNAL_URL", "INTERNAL_URL", () => listenInternal(app, options))
    : undefined;
  const metrics = await startMetrics(config, [app.metrics.registry]);
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
} catch (error) {
  refuseStart([(error as Error).message]);
}
