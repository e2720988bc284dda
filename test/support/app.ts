import { randomUUID } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DescService } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { pino } from "pino";
import { createGateway } from "../../gateway/server.ts";
import { openStandaloneGate } from "../../gateway/standalone-gate.ts";
import { createInternalTransport } from "../../gateway/transport/internal.ts";
import { type SimulatedDialect, startProviderSimulator } from "../../scripts/simulators/simulator.ts";
import { openApp } from "../../services/app.ts";
import { listenGrpc, TIMEOUTS } from "../../services/grpc/server.ts";
import { listenInternal } from "../../services/internal-server.ts";
import type { Admission } from "../../services/platform/admission.ts";
import { readConfig } from "../../services/platform/config.ts";
import { createInProcessTransport } from "../../services/platform/in-process.ts";
import { createAccounts, PASSWORD } from "./accounts.ts";
import { createClock } from "./clock.ts";
import { createDatabase } from "./databases.ts";
import { createHttpClient } from "./http-client.ts";
import { folderMailbox, smtpMailbox } from "./mailbox.ts";

/** How the product is deployed: on embedded parts, on PostgreSQL and Redis, or so with gateway and services apart. */
export type Mode = "embedded" | "servers" | "apart";

/** The running product, as a test sees it. */
export type TestApp = Awaited<ReturnType<typeof startApp>>;

const SECRET = "shared-by-gateway-and-services";
/** Next to nothing, in KiB and passes: most suites sign people in without looking at how passwords are kept. */
export const CHEAP = { memoryCost: 1_024, timeCost: 1 };
const DIALECTS: [SimulatedDialect, string][] = [
  ["openai", "OPENAI"],
  ["anthropic", "ANTHROPIC"],
  ["google", "GEMINI"],
  ["openai-compatible", "MISTRAL"],
];

const shared = globalThis as { gatehouseTestApp?: Promise<TestApp> };

/** The product of this worker, started once and shared by its suites: clients and users are each test's own. */
export function testApp(): Promise<TestApp> {
  shared.gatehouseTestApp ??= startApp();
  return shared.gatehouseTestApp;
}

/**
 * Starts the product in this process, for the mode of this run unless told otherwise.
 * @param realHashes has it hash passwords at the cost that users meet
 */
export async function startApp({
  env = {},
  mode = (process.env.TEST_MODE ?? "embedded") as Mode,
  timeouts = TIMEOUTS,
  admission = undefined as Admission | undefined,
  realHashes = false,
} = {}) {
  const clock = createClock();
  const dataDir = mkdtempSync(join(tmpdir(), "gatehouse-test-"));
  const logs: string[] = [];
  const log = pino({ level: "debug" }, { write: (line: string) => void logs.push(line) });
  const smtp = mode === "embedded" ? undefined : await smtpMailbox();
  const providers = await startProviders();
  const settings: Record<string, string | undefined> = {
    DATA_DIR: dataDir,
    DATABASE_URL: mode === "embedded" ? "memory:" : await createDatabase(randomUUID().slice(0, 8)),
    ...(mode !== "embedded" && { REDIS_URL: process.env.TEST_REDIS_URL, SMTP_URL: smtp?.url }),
    INTERNAL_SECRET: SECRET,
    PUBLIC_URL: "http://gatehouse.test",
    TRUST_PROXY: "127.0.0.1",
    GRPC_PORT: "0",
    MAIL_RETRY_BASE: "50ms",
    ADMIN_EMAIL: "root@example.com",
    ADMIN_PASSWORD: PASSWORD,
    ...providers.variables,
    ...env,
  };
  const config = valid(readConfig(settings));
  const hashCost = realHashes ? undefined : CHEAP;
  const app = await openApp(config, { log, clock, internalSecret: config.internalSecret, hashCost, admission });
  const grpc = await listenGrpc(app, config, timeouts);
  const grpcUrl = `http://127.0.0.1:${grpc.port}`;
  const options = { url: "tcp://127.0.0.1:0", secret: SECRET, tls: null, log };
  const internal = mode === "apart" ? await listenInternal(app, options) : undefined;
  const remote = internal && createInternalTransport(`tcp://127.0.0.1:${internal.port}`, SECRET);
  const standalone = remote && (await openStandaloneGate(config, remote, { log, clock }));
  const gateway = createGateway({
    config,
    transport: remote ?? createInProcessTransport(app.routes, app.interceptors),
    gate: (standalone ?? app).gate,
    admission: (standalone ?? app).admission,
    log,
    clock,
  });
  const url = await gateway.listen({ host: "127.0.0.1", port: 0 });
  const mail = smtp ?? folderMailbox(dataDir);
  const clients = createGrpcTransport({ baseUrl: grpcUrl });
  const httpClient = (address?: string) => createHttpClient(url, address);
  return {
    mode,
    url,
    grpcUrl,
    clock,
    logs,
    mail,
    providers: providers.simulators,
    settings,
    httpClient,
    /** A client of the gRPC door. */
    grpc: <T extends DescService>(service: T) => createClient(service, clients),
    /** Reads or changes rows directly. */
    sql: <T>(text: string, values: unknown[] = []) => app.store.fork().execute<T[]>(text, values),
    ...createAccounts({
      httpClient,
      mail,
      makeAdmin: (id) => app.store.fork().execute("update users set role = 'admin' where id = ?", [id]),
    }),
    async close() {
      await gateway.drain();
      standalone?.close();
      remote?.close();
      await Promise.all([grpc.close(1_000), internal?.close(1_000)]);
      await app.close();
      await mail.close();
      await providers.close();
    },
  };
}

async function startProviders() {
  const simulators = await Promise.all(DIALECTS.map(([dialect]) => startProviderSimulator({ dialect })));
  const variables = Object.fromEntries(
    DIALECTS.flatMap(([dialect, name], i) => [
      [`${name}_API_KEY`, "simulated-key"],
      [`${name}_BASE_URL`, `${simulators[i]?.url}${dialect.startsWith("openai") ? "/v1" : ""}`],
    ]),
  );
  return { simulators, variables, close: () => Promise.all(simulators.map((simulator) => simulator.close())) };
}

function valid<T>(read: { config: T } | { problems: string[] }): T {
  if ("problems" in read) throw new Error(read.problems.join("; "));
  return read.config;
}
