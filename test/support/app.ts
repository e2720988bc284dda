// The whole product in this process, as most suites use it.

import type { DescService } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { createGateway, openStandaloneGate } from "../../gateway/server.ts";
import { SIMULATED_DIALECTS, startProviderSimulator } from "../../scripts/simulators/simulator.ts";
import { openApp } from "../../services/app.ts";
import { requireConfig } from "../../services/platform/config/config.ts";
import type { Admission } from "../../services/platform/gate/admission.ts";
import { createInProcessTransport } from "../../services/platform/rpc/in-process.ts";
import { listenGrpc, TIMEOUTS } from "../../services/servers/grpc-server.ts";
import { createActions } from "./account-actions.ts";
import { createAccounts, PASSWORD } from "./accounts.ts";
import { createClock } from "./clock.ts";
import { createMigratedDatabase } from "./database/databases.ts";
import { createHttpClient } from "./http/client.ts";
import { SECRET, startInternal } from "./http/gateway.ts";
import { captureLog } from "./log.ts";
import { folderMailbox, smtpMailbox } from "./mail/mailbox.ts";
import { startInfrastructure } from "./processes/replicas.ts";
import { forSuite } from "./suites.ts";
import { temporaryFolder } from "./temporary-folder.ts";

/**
 * Embedded parts; PostgreSQL and Redis; gateway and services apart on these; two such pairs on
 * `startInfrastructure`.
 */
export type Mode = "embedded" | "servers" | "apart" | "replicas";

/**
 * Every feature of signing in that is off by default. A run with `TEST_FEATURES=yes` turns them on
 * in each suite without settings of its own: clients that do not know them must see no difference.
 */
const FEATURES = {
  EMAIL_SIGN_IN: "code",
  LOCKOUT_KNOWN_DEVICES: "exempt",
  TOKEN_METADATA: "plan,seats",
  PASSKEY_ORIGINS: "https://app.gatehouse.test",
  ...{ GOOGLE_CLIENT_ID: "client", GOOGLE_CLIENT_SECRET: "secret" },
  ...{ GITHUB_CLIENT_ID: "client", GITHUB_CLIENT_SECRET: "secret" },
  ...{ MICROSOFT_CLIENT_ID: "client", MICROSOFT_CLIENT_SECRET: "secret" },
  EXTERNAL_RETURN_URLS: "com.example.app:/external",
};

/** The running product, as a test sees it. */
export type TestApp = Awaited<ReturnType<typeof startApp>>;

/** The cost of a hash, in KiB and passes. It is low, since most suites do not test hashing. */
export const CHEAP = { memoryCost: 1_024, timeCost: 1 };

const shared = globalThis as { gatehouseTestApp?: Promise<TestApp> };

/** The product that the suites of a worker share. Each test has its own clients and users. */
export function testApp(): Promise<TestApp> {
  shared.gatehouseTestApp ??= startApp();
  return shared.gatehouseTestApp;
}

/**
 * Starts the product in this process.
 * @param mode by default that of the run
 * @param realHashes whether passwords are hashed at the cost of production
 */
export async function startApp({
  env = {},
  mode = (process.env.TEST_MODE ?? "embedded") as Mode,
  timeouts = TIMEOUTS,
  admission = undefined as Admission | undefined,
  realHashes = false,
} = {}) {
  const clock = createClock();
  const { lines: logs, log } = captureLog({ level: "debug" });
  const smtp = mode === "embedded" ? undefined : await smtpMailbox();
  const providers = await Promise.all(
    SIMULATED_DIALECTS.map((dialect) => startProviderSimulator({ dialect })),
  );
  const settings: Record<string, string | undefined> = {
    PORT: "0",
    DATA_DIR: temporaryFolder(),
    DATABASE_URL: mode === "embedded" ? "memory:" : await createMigratedDatabase(),
    ...(mode !== "embedded" && { REDIS_URL: process.env.TEST_REDIS_URL, SMTP_URL: smtp?.url }),
    INTERNAL_SECRET: SECRET,
    PUBLIC_URL: "http://gatehouse.test",
    TRUST_PROXY: "127.0.0.1",
    GRPC_PORT: "0",
    MAIL_RETRY_BASE: "50ms",
    ADMIN_EMAIL: "root@example.com",
    ADMIN_PASSWORD: PASSWORD,
    ...Object.assign({}, ...providers.map((provider) => provider.env)),
    ...(process.env.TEST_FEATURES && FEATURES),
    ...env,
  };
  const infrastructure =
    mode === "replicas" ? await startInfrastructure(settings.DATABASE_URL as string) : undefined;
  const hashCost = realHashes ? undefined : CHEAP;
  const startReplica = async (ports: object = {}) => {
    const config = requireConfig({ ...settings, ...infrastructure?.env, ...ports });
    const app = await openApp(config, {
      log,
      clock,
      internalSecret: config.internalSecret,
      hashCost,
      admission,
      databaseAheadMs: clock.aheadMs,
    });
    const grpc = await listenGrpc(app, config, timeouts);
    const internal = mode === "apart" || infrastructure ? await startInternal(app) : undefined;
    const standalone =
      internal && (await openStandaloneGate(config, internal.transport, { log, clock }));
    const gateway = createGateway({
      config,
      transport: internal?.transport ?? createInProcessTransport(app.routes, app.interceptors),
      checks: standalone ?? app,
      log,
      clock,
    });
    const url = await gateway.listen({ host: "127.0.0.1", port: config.port });
    const close = async () => {
      await gateway.drain();
      standalone?.redis?.close();
      await Promise.all([grpc.close(1_000), internal?.close(1_000)]);
      await app.close();
    };
    const registries = [gateway.metrics, app.metrics.registry];
    const grpcUrl = `http://127.0.0.1:${grpc.port}`;
    return { url, grpcUrl, registries, store: app.store, close };
  };
  const replicas = await Promise.all((infrastructure?.ports ?? [{}]).map(startReplica));
  const [{ store }] = replicas as [(typeof replicas)[0]];
  const { url, grpcUrl } = infrastructure ?? (replicas[0] as (typeof replicas)[0]);
  const mail = smtp ?? folderMailbox(settings.DATA_DIR as string);
  const clients = createGrpcTransport({ baseUrl: grpcUrl });
  const httpClient = (address?: string) => createHttpClient(url, address);
  const app = {
    mode,
    url,
    grpcUrl,
    clock,
    logs,
    mail,
    providers,
    settings,
    httpClient,
    /** The metrics of every process, as Prometheus reads them. */
    async metrics() {
      const registries = replicas.flatMap((replica) => replica.registries);
      return (await Promise.all(registries.map((each) => each.metrics()))).join("\n");
    },
    /** A client of the gRPC port. */
    grpc: <T extends DescService>(service: T) => createClient(service, clients),
    /** Reads or changes rows directly. */
    sql: <T>(text: string, values: unknown[] = []) => store.fork().execute<T[]>(text, values),
    ...createAccounts({
      httpClient,
      mail,
      makeAdmin: (id) => store.fork().execute("update users set role = 'admin' where id = ?", [id]),
    }),
    async close() {
      await Promise.all(replicas.map((replica) => replica.close()));
      await infrastructure?.close();
      await mail.close();
      await Promise.all(providers.map((provider) => provider.close()));
    },
  };
  return { ...app, ...createActions(app) };
}

/** Starts the product for one suite, and closes it after the suite. */
export const startSuiteApp = (options?: Parameters<typeof startApp>[0]) =>
  forSuite(startApp(options));
