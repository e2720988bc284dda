import { openApp } from "./app.ts";
import { readConfig } from "./config.ts";
import { loadEnvFile } from "./env-file.ts";
import { listening } from "./listening.ts";
import { createLog } from "./log.ts";
import { listenMetrics } from "./metrics.ts";
import { listenGrpc } from "./server.ts";
import { openTracing } from "./tracing.ts";

/** How long mail in hand, the last audit seal and connections have to end, in milliseconds. */
const CLOSING_MS = 20_000;

loadEnvFile();
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
  const server = await listening("GRPC_HOST", "GRPC_PORT", () => listenGrpc(app, config));
  const { metricsPort, grpc } = config;
  const metrics = metricsPort
    ? await listening("GRPC_HOST", "METRICS_PORT", () => listenMetrics(grpc.host, metricsPort, [app.metrics.registry]))
    : undefined;
  const stop = async () => {
    app.drain();
    await server.close(config.shutdownMs);
    await metrics?.close();
    setTimeout(() => process.exit(1), CLOSING_MS).unref(); // what isn't closed by then never will be
    await app.close();
    await tracing?.close();
    process.exit(0);
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
  log.info(`gRPC, gRPC-Web and Connect on ${config.grpc.host}:${server.port}`);
} catch (error) {
  process.stderr.write(`Gatehouse can't start: ${(error as Error).message}\n`);
  process.exit(1);
}
