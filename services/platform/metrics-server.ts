import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { collectDefaultMetrics, Registry } from "prom-client";

/** A listening metrics server. */
export type MetricsServer = { port: number; close(): Promise<void> };

/** Serves `GET /metrics` as Prometheus text: what the registries hold and, beside it, the state of the process. */
export async function listenMetrics(host: string, port: number, registries: Registry[]): Promise<MetricsServer> {
  const ofProcess = new Registry();
  collectDefaultMetrics({ register: ofProcess });
  const all = Registry.merge([ofProcess, ...registries]);
  const server = createServer((request, response) => {
    if (request.method !== "GET" || request.url !== "/metrics") return void response.writeHead(404).end();
    all.metrics().then(
      (text) => response.writeHead(200, { "content-type": all.contentType }).end(text),
      () => response.writeHead(500).end(),
    );
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
