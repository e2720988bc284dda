// Free ports, listening servers, addresses in URLs.

import { randomInt } from "node:crypto";
import { type AddressInfo, createServer, type Server } from "node:net";

const DEFAULT_PORTS: Record<string, number> = {
  "postgres:": 5432,
  "postgresql:": 5432,
  "redis:": 6379,
};

/**
 * Lets a server listen on a free port of 127.0.0.1.
 * @returns the port
 */
export async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** The host and port of a server, by its URL. */
export function addressOf(url: string): { host: string; port: number } {
  const { hostname, port, protocol } = new URL(url);
  return { host: hostname, port: Number(port || DEFAULT_PORTS[protocol]) };
}

/** The URL of the same server behind a local port. */
export const throughPort = (url: string, port: number) =>
  Object.assign(new URL(url), { host: `127.0.0.1:${port}` }).href;

/** Each worker of a run has its own ports, so that none takes the port of another's server. */
const PORTS_PER_WORKER = 2_500;
const FIRST_PORT = 12_000 + (Number(process.env.VITEST_POOL_ID ?? 0) % 8) * PORTS_PER_WORKER;
const given = new Set<number>();

/** A port that nothing listens on, below those of outgoing connections. Each is given once. */
export function freePort(): Promise<string> {
  const port = FIRST_PORT + randomInt(PORTS_PER_WORKER);
  if (given.has(port)) return freePort();
  given.add(port);
  return new Promise((resolve) => {
    const server = createServer().listen(port, "127.0.0.1", () =>
      server.close(() => resolve(String(port))),
    );
    server.once("error", () => resolve(freePort()));
  });
}
