import autocannon from "autocannon";
import type { Server } from "./server.ts";
import { ROUNDS, SECONDS } from "./settings.ts";

/** A server and the request that is sent to it. */
export type Contestant = {
  server: Server;
  request: Omit<autocannon.Options, "url"> & { path: string };
};

/** Result of a load: CPU time of the server per request in µs, latency in ms. */
export type Load = { perSecond: number; cpuMicros: number; p99: number; failed: number };

/** Loads a server for some seconds. */
export async function load(
  { server, request }: Contestant,
  seconds: number,
  connections = 32,
): Promise<Load> {
  const { path, ...options } = request;
  const before = server.cpuMs();
  const result = await autocannon({
    ...options,
    url: server.url + path,
    connections,
    duration: seconds,
  });
  const { total } = result.requests;
  return {
    perSecond: total / result.duration,
    cpuMicros: ((server.cpuMs() - before) * 1000) / total,
    p99: result.latency.p99,
    failed: result.non2xx + result.errors,
  };
}

/**
 * Loads contestants in turns, so that other work on the machine affects all of them alike.
 * @returns the loads of each contestant, by round
 * @throws Error if a request failed
 */
export async function inTurns<K extends string>(
  contestants: Record<K, Contestant>,
): Promise<Record<K, Load[]>> {
  const names = Object.keys(contestants) as K[];
  const loads = Object.fromEntries(names.map((name) => [name, [] as Load[]])) as Record<K, Load[]>;
  for (const name of names) await load(contestants[name], 1); // warm up
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of names) loads[name].push(await load(contestants[name], SECONDS));
  }
  for (const name of names) {
    const failed = loads[name].reduce((sum, each) => sum + each.failed, 0);
    if (failed > 0) throw new Error(`${failed} requests to ${name} failed: its figures are void`);
  }
  return loads;
}
