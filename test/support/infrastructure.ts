import { randomUUID } from "node:crypto";
import { freePort } from "./metrics.ts";
import { startPgBouncer } from "./pgbouncer.ts";
import { startRedisCluster } from "./redis-cluster.ts";
import { startReverseProxy, type Upstreams } from "./reverse-proxy.ts";
import { isMissing } from "./skip-without.ts";

/** Whether the servers of `startInfrastructure` are installed. */
export const hasInfrastructure =
  Boolean(process.env.TEST_SERVERS) && !["nginx", "redis-server", "pgbouncer"].some(isMissing);

/** The servers of an installation with replicas: PgBouncer before the database, a Redis cluster, and nginx before two replicas. */
export async function startInfrastructure(databaseUrl: string) {
  const [a, b, c, d] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
  const upstreams: Upstreams = { rest: [a, b], grpc: [c, d] };
  const [pooler, cluster, nginx] = await Promise.all([
    startPgBouncer(databaseUrl),
    startRedisCluster(randomUUID()),
    startReverseProxy("nginx", upstreams),
  ]);
  return {
    url: nginx.plainUrl,
    env: { DATABASE_URL: pooler.url, REDIS_URL: cluster.urls.join() },
    /** The ports of each replica. */
    ports: ([0, 1] as const).map((i) => ({ PORT: upstreams.rest[i], GRPC_PORT: upstreams.grpc[i] })),
    flushRedis: cluster.flush,
    close: async () => void (await Promise.all([nginx.close(), pooler.close(), cluster.close()])),
  };
}
