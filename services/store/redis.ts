import { Cluster, Redis } from "ioredis";
import type { Logger } from "pino";

/** Redis is asked to answer within this time in ms; request paths go on without it. */
const COMMAND_TIMEOUT_MS = 250;
/** Longest pause between two tries to connect, in ms. */
const RECONNECT_MS = 1_000;

const options = {
  commandTimeout: COMMAND_TIMEOUT_MS,
  connectTimeout: COMMAND_TIMEOUT_MS * 4,
  enableOfflineQueue: false, // an outage must not become hung requests
  enableAutoPipelining: true,
  maxRetriesPerRequest: 0,
  retryStrategy: (tries: number) => Math.min(tries * 50, RECONNECT_MS),
};

const clusterOptions = {
  enableOfflineQueue: false,
  enableAutoPipelining: true,
  clusterRetryStrategy: options.retryStrategy,
};

/** Connects to Redis, or to a cluster where several URLs are given; keeps trying while it is away. */
export async function openRedis(urls: string[], log: Logger): Promise<Redis | Cluster> {
  const [url, ...others] = urls;
  if (!url) throw new Error("no Redis URL");
  const redis = others.length
    ? new Cluster(urls, { redisOptions: { commandTimeout: COMMAND_TIMEOUT_MS }, ...clusterOptions })
    : new Redis(url, options);
  let away = false;
  redis.on("error", (error: Error) => {
    if (!away) log.warn({ reason: error.message }, "Redis is away: limits are kept per process");
    away = true;
  });
  await new Promise<void>((resolve) => {
    redis.once("ready", resolve);
    redis.once("error", () => resolve());
  });
  redis.on("ready", () => {
    if (away) log.info("Redis is back");
    away = false;
  });
  return redis;
}
