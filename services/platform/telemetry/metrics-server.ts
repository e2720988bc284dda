import { once } from "node:events";
import { createServer } from "node:http";
import { collectDefaultMetrics, Registry } from "prom-client";
import type { Config } from "../config/config.ts";
import { listenOrExplain } from "../process/listen.ts";

/**
 * Serves `GET /metrics` as Prometheus text: the given registries and process metrics. Undefined if it
 * is disabled.
 */
export async function startMetrics(
  config: Pick<Config, "metricsHost" | "metricsPort">,
  registries: Registry[],
) {
  const { metricsHost: host, metricsPort: port } = config;
  if (port === 0) return undefined;
  const processRegistry = new Registry();
  collectDefaultMetrics({ register: processRegistry });
  const all = Registry.merge([processRegistry, ...registries]);
  const server = createServer((request, response) => {
    if (request.method !== "GET" || request.url !== "/metrics")
      return void response.writeHead(404).end();
    all.metrics().then(
      (text) => response.writeHead(200, { "content-type": all.contentType }).end(text),
      () => response.writeHead(500).end(),
    );
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
