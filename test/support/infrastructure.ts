import { randomUUID } from "node:crypto";
import { freePort } from "./metrics.ts";
import { startPgBouncer } from "./pgbouncer.ts";
import { startRedisCluster } from "./redis-cluster.ts";
import { startReverseProxy, type Upstreams } from "./reverse-proxy.ts";

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
