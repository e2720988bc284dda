import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { expect } from "vitest";

/** Each worker of a run has ports of its own, so that none takes the port of another's server. */
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

/** The metrics of a process by name and labels. */
export async function readMetrics(port: string): Promise<Map<string, number>> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  expect(response.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
  const lines = (await response.text())
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => [line.replace(/ \S+$/, ""), Number(line.replace(/^.* /, ""))]),
  );
}
