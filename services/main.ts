import { openApp } from "./app.ts";
import { listenGrpc } from "./grpc/server.ts";
import { listenInternal } from "./internal-server.ts";
import { createLog } from "./platform/log.ts";
import { startMetrics } from "./platform/metrics-server.ts";
import {
  listenOrExplain,
  loadEnvFile,
  readConfigOrExit,
  refuseStart,
  shutdownOnSignal,
  systemClock,
} from "./platform/process.ts";
import { openTracing } from "./platform/tracing.ts";
import { checkFiles } from "./start-checks.ts";

/** The process of `npm run start:services`. */
loadEnvFile(process.env);
const config = await readConfigOrExit(process.env, "services", checkFiles);
try {
  const { internalSecret, grpc } = config;
  const log = createLog(config.logLevel);
  const tracing = await openTracing(config.otlpEndpoint, "gatehouse-services");
  const app = await openApp(config, { log, clock: systemClock, internalSecret, tracing });
  const server = await listenOrExplain("GRPC_HOST", "GRPC_PORT", () => listenGrpc(app, config));
  const options = { url: config.internalUrl ?? "", secret: internalSecret, tls: grpc.tls, log };
  const internal = config.internalUrl
    ? await listenOrExplain("INTERNAL_URL", "INTERNAL_URL", () => listenInternal(app, options))
    : undefined;
  const metrics = await startMetrics(config, [app.metrics.registry]);
  const finish = async () => {
    app.drain();
    await Promise.all([server.close(config.shutdownMs), internal?.close(config.shutdownMs)]);
    await metrics?.close();
  };
  shutdownOnSignal(finish, async () => {
    await app.close();
    await tracing?.close();
  });
  log.info(`gRPC, gRPC-Web and Connect on ${grpc.host}:${server.port}`);
} catch (error) {
  refuseStart([(error as Error).message]);
}
