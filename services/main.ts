import { openApp } from "./app.ts";
import { readConfig } from "./config.ts";
import { listenGrpc } from "./grpc/server.ts";
import { loadEnvFile } from "./platform/env-file.ts";
import { listenOrExplain } from "./platform/listen.ts";
import { createLog } from "./platform/log.ts";
import { listenMetrics } from "./platform/metrics-server.ts";
import { shutdownOnSignal } from "./platform/shutdown.ts";
import { openTracing } from "./platform/tracing.ts";
import { openRoom } from "./process/room.ts";

loadEnvFile(process.env);
const read = readConfig(process.env, { apart: true });
if ("problems" in read) {
  process.stderr.write(`Gatehouse can't start:\n${read.problems.map((problem) => `  ${problem}\n`).join("")}`);
  process.exit(1);
}
const { config } = read;
const log = createLog(config.logLevel);
try {
  const { internalSecret } = config;
  const tracing = await openTracing(config.otlpEndpoint, "gatehouse-services");
  const app = await openApp(config, { log, clock: { now: () => new Date() }, internalSecret, tracing });
  const server = await listenOrExplain("GRPC_HOST", "GRPC_PORT", () => listenGrpc(app, config, openRoom()));
  const { metricsPort, grpc } = config;
  const metrics = metricsPort
    ? await listenOrExplain("GRPC_HOST", "METRICS_PORT", () =>
        listenMetrics(grpc.host, metricsPort, [app.metrics.registry]),
      )
    : undefined;
  const finish = async () => {
    app.drain();
    await server.close(config.shutdownMs);
    await metrics?.close();
  };
  shutdownOnSignal(finish, async () => {
    await app.close();
    await tracing?.close();
  });
  log.info(`gRPC, gRPC-Web and Connect on ${config.grpc.host}:${server.port}`);
} catch (error) {
  process.stderr.write(`Gatehouse can't start: ${(error as Error).message}\n`);
  process.exit(1);
}
