import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { expect } from "vitest";

/** A free port. It is below the range from which systems choose ports, so that it stays free. */
export function freePort(): Promise<string> {
  const port = randomInt(12_000, 32_000);
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
