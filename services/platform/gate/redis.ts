import { Cluster, Redis } from "ioredis";
import type { Logger } from "pino";
import { createAvailabilityLog } from "../telemetry/log.ts";

/**
 * Redis must reply within five steps of this length, in ms. After that, requests continue without
 * it.
 */
const TIMEOUT_STEP_MS = 50;
const timedOut = new Error("Redis did not reply in time.");
/**
 * After a command has timed out, no commands are sent for this time in ms; then a single one probes
 * the connection.
 */
const BREAKER_OPEN_MS = 1_000;
/** A connection that does not answer a command within this time in ms is closed and reopened. */
const SOCKET_TIMEOUT_MS = 1_000;
/** Longest delay between two connection attempts, in ms. */
const MAX_RECONNECT_MS = 1_000;

const nodeOptions = {
  connectTimeout: SOCKET_TIMEOUT_MS,
  socketTimeout: SOCKET_TIMEOUT_MS,
  maxRetriesPerRequest: 0,
};
const offline = { enableOfflineQueue: false }; // commands fail immediately during an outage instead of being queued
const retryDelay = (tries: number) => Math.min(tries * 50, MAX_RECONNECT_MS);

/** A connection to Redis that never delays a request for long. */
export type RedisClient = Awaited<ReturnType<typeof openRedis>>;

/**
 * Connects to Redis, or to a cluster if there are several URLs. Keeps reconnecting in the
 * background while it is unavailable.
 */
export async function openRedis(urls: readonly string[], log: Logger) {
  const [url, ...others] = urls;
  if (!url) throw new Error("no Redis URL");
  const client = others.length
    ? openCluster(url, urls)
    : new Redis(url, {
        ...nodeOptions,
        ...offline,
        enableAutoPipelining: true,
        retryStrategy: retryDelay,
      });
  const availability = createAvailabilityLog(log, "Redis", ", rate limits are counted per process");
  const onFailure = (error: Error & { lastNodeError?: Error }) =>
    availability.onFailure(error.lastNodeError ?? error);
  client.on("error", onFailure);
  await new Promise<void>((resolve) => {
    client.once("ready", resolve);
    client.once("error", () => resolve());
    client.once("close", resolve); // a proxy without a backend closes connections; ioredis does not report that as an error
  });
  let openUntil = 0;
  /**
   * Runs a command unless Redis is known to be unavailable.
   * @throws Error if it fails or times out
   */
  async function withBreaker<T>(command: () => Promise<T>): Promise<T> {
    try {
      if (client.status !== "ready") throw new Error("Redis is not connected."); // a cluster client would queue the command
      if (performance.now() < openUntil) throw timedOut;
      if (openUntil > 0) openUntil = performance.now() + BREAKER_OPEN_MS; // this command is the probe
      const reply = await inTime(command());
      openUntil = 0;
      availability.onSuccess();
      return reply;
    } catch (error) {
      if (error === timedOut) openUntil ||= performance.now() + BREAKER_OPEN_MS;
      onFailure(error as Error);
      throw error;
    }
  }
  return {
    client,
    withBreaker,
    /** Resolves once every master node has replied. */
    ping: () =>
      withBreaker(async () => void (await Promise.all(nodesOf(client).map((node) => node.ping())))),
    close: () => client.disconnect(),
  };
}

/**
 * Waits in steps because a single timer would fire after a stall of this process: with steps,
 * replies that arrived during the stall are read first.
 */
function inTime<T>(reply: Promise<T>): Promise<T> {
  const timeout = Promise.withResolvers<never>();
  let steps = 5;
  const timer = setTimeout(
    () => (--steps ? timer.refresh() : timeout.reject(timedOut)),
    TIMEOUT_STEP_MS,
  );
  return Promise.race([reply, timeout.promise]).finally(() => clearTimeout(timer));
}

/**
 * The URLs are seed nodes. The nodes they report use the same user, and TLS if the first URL does.
 * Auto-pipelining is off: ioredis would put scripts for different nodes into one pipeline and then
 * reject it.
 */
function openCluster(url: string, urls: readonly string[]): Cluster {
  const { username, password, protocol } = new URL(url);
  return new Cluster([...urls], {
    ...offline,
    redisOptions: {
      ...nodeOptions,
      ...(username && { username: decodeURIComponent(username) }),
      ...(password && { password: decodeURIComponent(password) }),
      ...(protocol === "rediss:" && { tls: {} }),
    },
    dnsLookup: (host, callback) => callback(null, host), // certificates contain host names, not addresses
    clusterRetryStrategy: retryDelay,
  });
}

function nodesOf(client: Redis | Cluster): Redis[] {
  if (client instanceof Redis) return [client];
  const nodes = client.nodes("master");
  if (nodes.length === 0) throw new Error("no node of the Redis cluster replied");
  return nodes;
}
