import { Cluster, Redis } from "ioredis";
import type { Logger } from "pino";

/** Redis has to answer within this time in ms; requests go on without it. */
const ANSWER_MS = 250;
/** After a late answer Redis is not asked for this time in ms; then a single request tries it on behalf of all. */
const PAUSE_MS = 1_000;
/** A connection that leaves a command unanswered for this time in ms is broken off and made anew. */
const SILENCE_MS = 1_000;
/** After this time in ms without a failure, Redis counts as back. */
const SETTLED_MS = 2_000;
/** Longest pause between two tries to connect, in ms. */
const RECONNECT_MS = 1_000;

const options = {
  connectTimeout: SILENCE_MS,
  socketTimeout: SILENCE_MS,
  maxRetriesPerRequest: 0,
};

const common = {
  enableOfflineQueue: false, // an outage must not become hung requests
};

const retry = (tries: number) => Math.min(tries * 50, RECONNECT_MS);

/** Redis as requests see it: it answers soon or counts as away, so that it never holds a request up. */
export type SharedCache = {
  client: Redis | Cluster;
  /** Asks something. @throws Error when no answer came in time, or none is to be expected */
  ask<T>(question: () => Promise<T>): Promise<T>;
  /** Resolves when every node that should answer does. */
  ping(): Promise<void>;
  close(): void;
};

/** Connects to Redis, or to a cluster where several URLs are given; keeps trying while it is away. */
export async function openRedis(urls: string[], log: Logger): Promise<SharedCache> {
  const [url, ...others] = urls;
  if (!url) throw new Error("no Redis URL");
  const client = others.length
    ? openCluster(url, urls)
    : new Redis(url, { ...options, ...common, enableAutoPipelining: true, retryStrategy: retry });
  const presence = tellPresence(log);
  client.on("error", presence.missed);
  await new Promise<void>((resolve) => {
    client.once("ready", resolve);
    client.once("error", () => resolve());
    client.once("close", resolve); // by a proxy with nobody behind it: that is no error to the client
  });
  const ask = askInTime(client, presence);
  return {
    client,
    ask,
    ping: () => ask(async () => void (await Promise.all(nodesOf(client).map((node) => node.ping())))),
    close: () => client.disconnect(),
  };
}

/**
 * The URLs are where to begin; the nodes that these tell of take the same user, and TLS if these do. What is asked at once
 * goes to each node by itself: as one, ioredis sends scripts whose keys are on different nodes, which it then refuses.
 */
function openCluster(url: string, urls: string[]): Cluster {
  const { username, password, protocol } = new URL(url);
  return new Cluster(urls, {
    ...common,
    redisOptions: {
      ...options,
      ...(username && { username: decodeURIComponent(username) }),
      ...(password && { password: decodeURIComponent(password) }),
      ...(protocol === "rediss:" && { tls: {} }),
    },
    dnsLookup: (host, callback) => callback(null, host), // certificates are of names
    clusterRetryStrategy: retry,
  });
}

function nodesOf(client: Redis | Cluster): Redis[] {
  if (client instanceof Redis) return [client];
  const nodes = client.nodes("master");
  if (nodes.length === 0) throw new Error("no node of the cluster answers");
  return nodes;
}

type Presence = { missed(error: Error): void; met(): void };

/** Logs once when Redis goes away, and once when it has been back for a while: part of a cluster may stay away. */
function tellPresence(log: Logger): Presence {
  let away = false;
  let missedAt = 0;
  return {
    missed(error) {
      const { message: reason } = (error as { lastNodeError?: Error }).lastNodeError ?? error;
      if (!away) log.warn({ reason }, "Redis is away: limits are kept per process");
      away = true;
      missedAt = performance.now();
    },
    met() {
      if (!away || performance.now() < missedAt + SETTLED_MS) return;
      log.info("Redis is back");
      away = false;
    },
  };
}

function askInTime(client: Redis | Cluster, { missed, met }: Presence): SharedCache["ask"] {
  let silentUntil = 0;
  return async <T>(question: () => Promise<T>) => {
    const now = performance.now();
    if (client.status !== "ready") {
      const error = new Error("Redis is not connected."); // a cluster would let commands wait
      missed(error);
      throw error;
    }
    if (now < silentUntil) throw new Error("Redis has kept somebody waiting just now.");
    if (silentUntil > 0) silentUntil = now + PAUSE_MS; // this one asks for all
    let isLate = false;
    let timer: NodeJS.Timeout | undefined;
    try {
      const answer = await new Promise<T>((resolve, reject) => {
        const giveUp = () => {
          isLate = true;
          reject(new Error("Redis did not answer in time."));
        };
        timer = setTimeout(() => setImmediate(giveUp), ANSWER_MS); // what came while this process was busy is read first
        question().then(resolve, reject);
      });
      silentUntil = 0;
      met();
      return answer;
    } catch (error) {
      if (isLate) silentUntil = performance.now() + PAUSE_MS;
      missed(error as Error);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  };
}
