import { openApp } from "./app.ts";
import { readConfig } from "./config.ts";
import { listenGrpc } from "./grpc/server.ts";
import { endOnSignal } from "./process/ending.ts";
import { loadEnvFile } from "./process/env-file.ts";
import { listenMetrics } from "./process/listen-metrics.ts";
import { listening } from "./process/listening.ts";
import { createLog } from "./process/log.ts";
import { openRoom } from "./process/room.ts";
import { openTracing } from "./tracing.ts";

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
  const server = await listening("GRPC_HOST", "GRPC_PORT", () => listenGrpc(app, config, openRoom()));
  const { metricsPort, grpc } = config;
  const metrics = metricsPort
    ? await listening("GRPC_HOST", "METRICS_PORT", () => listenMetrics(grpc.host, metricsPort, [app.metrics.registry]))
    : undefined;
  const finish = async () => {
    app.drain();
    await server.close(config.shutdownMs);
    await metrics?.close();
  };
  endOnSignal(finish, async () => {
    await app.close();
    await tracing?.close();
  });
  log.info(`gRPC, gRPC-Web and Connect on ${config.grpc.host}:${server.port}`);
} catch (error) {
  process.stderr.write(`Gatehouse can't start: ${(error as Error).message}\n`);
  process.exit(1);
}
