import { randomBytes } from "node:crypto";
import type { AppOptions } from "../services/app.ts";
import type { Config } from "../services/config.ts";
import { loadEnvFile } from "../services/platform/env-file.ts";
import { listenOrExplain } from "../services/platform/listen.ts";
import { createLog } from "../services/platform/log.ts";
import { listenMetrics } from "../services/platform/metrics-server.ts";
import { shutdownOnSignal } from "../services/platform/shutdown.ts";
import { openTracing } from "../services/platform/tracing.ts";
import { openRoom, type Room } from "../services/process/room.ts";
import { type GatewayConfig, readGatewayConfig } from "./config.ts";
import { createGateway } from "./server.ts";
import { createInProcessTransport } from "./transport/in-process.ts";
import { createServicesTransport } from "./transport/services.ts";

/** The process of `npm start`: the gateway, and the services with it unless SERVICES_URL says where they are. */
loadEnvFile(process.env);
const settings = await readSettings(process.env);
try {
  await start(settings);
} catch (error) {
  refuse([(error as Error).message]);
}

type Settings = { gateway: GatewayConfig; services: Config | undefined };

/** Reads both sides' variables and reports everything that is wrong with them together. */
async function readSettings(env: NodeJS.ProcessEnv): Promise<Settings> {
  const gateway = readGatewayConfig(env);
  const services = env.SERVICES_URL?.trim() ? undefined : (await import("../services/config.ts")).readConfig(env);
  const problems = [gateway, services].flatMap((read) => (read && "problems" in read ? read.problems : []));
  if ("problems" in gateway || (services && "problems" in services)) {
    const byVariable = new Map(problems.map((problem) => [problem.split(" ")[0], problem])); // both sides read some
    return refuse([...byVariable.values()]);
  }
  return { gateway: gateway.config, services: services?.config };
}

async function start({ gateway: config, services }: Settings): Promise<void> {
  const log = createLog(config.logLevel);
  const internalSecret = config.internalSecret ?? randomBytes(32).toString("base64url"); // in one process nobody else knows it
  const clock = { now: () => new Date() };
  const tracing = await openTracing(config.otlpEndpoint, services ? "gatehouse" : "gatehouse-gateway");
  const here = services && (await openServices(services, { log, clock, internalSecret, tracing }));
  const room = openRoom();
  const app = here?.app;
  const remote = config.servicesUrl ? createServicesTransport(config.servicesUrl, config.servicesTls) : undefined;
  const transport = app ? createInProcessTransport(app.routes, app.interceptors) : remote;
  if (!transport) throw new Error("There are no services, neither here nor at SERVICES_URL.");
  const gateway = createGateway({
    config: { ...config, internalSecret },
    transport,
    room,
    log,
    startSpan: tracing?.start,
  });
  const grpc = here && (await listenOrExplain("GRPC_HOST", "GRPC_PORT", () => here.listen(room)));
  const registries = [gateway.metrics, ...(app ? [app.metrics.registry] : [])];
  const { host, port, metricsPort } = config;
  const metrics = metricsPort
    ? await listenOrExplain("HOST", "METRICS_PORT", () => listenMetrics(host, metricsPort, registries))
    : undefined;
  const url = await listenOrExplain("HOST", "PORT", () => gateway.listen({ host, port }));
  const finish = async () => {
    app?.drain();
    await Promise.all([gateway.drain(), grpc?.close(config.shutdownTimeoutMs)]);
    remote?.close();
    await metrics?.close();
  };
  shutdownOnSignal(finish, async () => {
    await app?.close();
    await tracing?.close();
  });
  // The documentation sends requests, and cookies are taken from the public address alone.
  const readOn = port === 0 ? url : config.publicUrl;
  greet(url, services && grpc ? `${services.grpc.host}:${grpc.port}` : undefined, readOn);
}

/** Opens the services in this process. They are loaded only for it: a gateway alone needs none of their code. */
async function openServices(config: Config, options: AppOptions) {
  const [{ openApp }, { listenGrpc }] = await Promise.all([
    import("../services/app.ts"),
    import("../services/grpc/server.ts"),
  ]);
  const app = await openApp(config, options);
  return { app, listen: (room: Room) => listenGrpc(app, config, room) };
}

/** For people, on standard error: standard output carries the log. */
function greet(url: string, grpc: string | undefined, readOn: string): void {
  process.stderr.write(
    [
      "",
      `Gatehouse is ready: REST and server-sent events on ${url}${grpc ? `, gRPC on ${grpc}` : ""}`,
      "Try first:",
      `  curl -s ${url}/health`,
      `  curl -s ${url}/auth/register -H 'Content-Type: application/json' -d '{"email":"ann@example.com","password":"Secret-1!","name":"Ann","acceptTerms":true}'`,
      `Read on: ${readOn}/docs`,
      "",
      "",
    ].join("\n"),
  );
}

function refuse(problems: string[]): never {
  process.stderr.write(`Gatehouse can't start:\n${problems.map((problem) => `  ${problem}\n`).join("")}`);
  process.exit(1);
}
