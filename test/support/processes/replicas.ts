// Replicas behind nginx, on PgBouncer and a Redis cluster.

import { randomUUID } from "node:crypto";
import { createAccounts } from "../accounts.ts";
import { createDatabase, runSql } from "../database/databases.ts";
import { startPgBouncer } from "../database/postgres-server.ts";
import { startRedisCluster } from "../database/redis.ts";
import { createHttpClient } from "../http/client.ts";
import { smtpMailbox } from "../mail/mailbox.ts";
import { startReverseProxy, type Upstreams } from "../network/reverse-proxy.ts";
import { freePort } from "../network/sockets.ts";
import { sharedVariables, startApart } from "./processes.ts";

/** Whether the servers of `startInfrastructure` are installed. */
export const hasInfrastructure = Boolean(process.env.TEST_INFRASTRUCTURE);

const shared = globalThis as { gatehouseTestCluster?: ReturnType<typeof startRedisCluster> };

/**
 * The servers of an installation with replicas: PgBouncer, nginx before two replicas, and the Redis
 * cluster of the worker.
 */
export async function startInfrastructure(databaseUrl: string) {
  shared.gatehouseTestCluster ??= startRedisCluster(randomUUID()); // it ends with the worker
  const [a, b, c, d] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
  const upstreams: Upstreams = { rest: [a, b], grpc: [c, d] };
  const [pooler, cluster, nginx] = await Promise.all([
    startPgBouncer(databaseUrl),
    shared.gatehouseTestCluster,
    startReverseProxy("nginx", upstreams),
  ]);
  return {
    url: nginx.plainUrl,
    grpcUrl: nginx.plainGrpcUrl,
    env: { DATABASE_URL: pooler.url, REDIS_URL: cluster.urls.join() },
    /** The ports of each replica. */
    ports: ([0, 1] as const).map((i) => ({
      PORT: upstreams.rest[i],
      GRPC_PORT: upstreams.grpc[i],
    })),
    flushRedis: cluster.flush,
    close: async () => void (await Promise.all([nginx.close(), pooler.close()])),
  };
}

/** Two gateways and two service processes behind nginx, on PgBouncer and a Redis cluster. */
export type Deployment = Awaited<ReturnType<typeof startDeployment>>;

/**
 * Starts four processes. Each gateway has its own service process.
 * @param root the folder of the release that is started first
 */
export async function startDeployment(settings: Record<string, string> = {}, root = process.cwd()) {
  const mail = await smtpMailbox();
  const databaseUrl = await createDatabase();
  const infrastructure = await startInfrastructure(databaseUrl);
  const env = {
    SMTP_URL: mail.url,
    ...sharedVariables(),
    RATE_LIMITS: "off",
    LOG_LEVEL: "debug",
    WORKERS: process.env.REPLICA_WORKERS ?? "1",
    ...infrastructure.env,
    ...settings,
  };
  const pairs: Awaited<ReturnType<typeof startApart>>[] = [];
  const startOne = async (i: number, changes: Record<string, string> = {}, release = root) => {
    pairs[i] = await startApart({ ...env, ...infrastructure.ports[i], ...changes }, {}, release);
  };
  const start = async (changes?: Record<string, string>) =>
    void (await Promise.all([0, 1].map((i) => startOne(i, changes))));
  const stop = async (signal: NodeJS.Signals) =>
    void (await Promise.all(
      pairs.flatMap(({ gateway, services }) => [gateway.end(signal), services.end(signal)]),
    ));
  await start();
  const httpClient = () => createHttpClient(infrastructure.url, undefined, root === process.cwd());
  return {
    mail,
    /** The REST address of nginx. */
    url: infrastructure.url,
    /** Empties Redis. */
    flushRedis: infrastructure.flushRedis,
    /** A client whose requests reach the gateways by round robin. */
    httpClient,
    /** Sends a refresh token to the next gateway. */
    refresh: (token: string) =>
      httpClient().send("POST", "/auth/refresh", undefined, { cookie: `refreshToken=${token}` }),
    /** The status of GET /user/profile at the next gateway. */
    profile: async (token: string) => (await httpClient().get("/user/profile", token)).status,
    ...createAccounts({ httpClient, mail }),
    sql: <T>(text: string, values?: unknown[]) => runSql<T>(databaseUrl, text, values),
    databaseUrl,
    secretKey: env.SECRET_KEY,
    /** Ends every process by force and starts them again. */
    async restart(changes?: Record<string, string>) {
      await stop("SIGKILL");
      await start(changes);
    },
    /**
     * Replaces a gateway and its services by those of a release, as an upgrade does, with other
     * settings.
     * @returns the exit codes
     */
    async replace(i: 0 | 1, release: string, changes: Record<string, string> = {}) {
      const codes = [
        await pairs[i]?.gateway.end("SIGTERM"),
        await pairs[i]?.services.end("SIGTERM"),
      ];
      await startOne(i, changes, release);
      return codes;
    },
    async close() {
      await stop("SIGTERM");
      await infrastructure.close();
      await mail.close();
    },
  };
}
