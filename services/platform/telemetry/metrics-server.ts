import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { collectDefaultMetrics, Registry } from "prom-client";
import type { Config } from "../config/config.ts";
import { listenOrExplain } from "../process/listen.ts";

/** Creates a function that returns the given registries with the metrics of this process. */
export function collectorOf(registries: Registry[]): () => Registry {
  const all = withProcessMetrics(registries);
  return () => all;
}

/** Merges the given registries with the metrics of this process. */
export function withProcessMetrics(registries: Registry[]): Registry {
  const processRegistry = new Registry();
  collectDefaultMetrics({ register: processRegistry });
  return Registry.merge([processRegistry, ...registries]);
}

/**
 * Serves `GET /metrics` as Prometheus text. Undefined if it is disabled.
 * @param open called unless it is disabled; returns a function that collects the metrics for each
 * request
 */
export async function startMetrics(
  config: Pick<Config, "metricsHost" | "metricsPort">,
  open: () => () => Registry | Promise<Registry>,
) {
  const { metricsHost: host, metricsPort: port } = config;
  if (port === 0) return undefined;
  const collect = open();
  const write = async (response: ServerResponse) => {
    const all = await collect();
    const text = await all.metrics();
    response.writeHead(200, { "content-type": all.contentType }).end(text);
  };
  const server = createServer((request, response) => {
    if (request.method !== "GET" || request.url !== "/metrics")
      return void response.writeHead(404).end();
    write(response).catch(() => response.writeHead(500).end());
  });
  await listenOrExplain("METRICS_HOST", "METRICS_PORT", () =>
    once(server.listen(port, host), "listening"),
  );
  return {
    async close() {
      const closed = once(server.close(), "close");
      server.closeAllConnections();
      await closed;
    },
  };
}
