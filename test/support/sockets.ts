import type { AddressInfo, Server } from "node:net";

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
