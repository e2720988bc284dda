import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import autocannon from "autocannon";
import { closing } from "./closing.ts";
import { freePort } from "./ports.ts";
import { record } from "./results.ts";

/**
 * Looked at before a benchmark keeps to a core of its own, after which there seems to be one alone.
 */
const CORES = availableParallelism();

/** A server in a process of its own, on one core. */
export type Server = {
  url: string;
  pid: number;
  /** Where its inspector listens once it is sent SIGUSR1. */
  debugPort: number;
  /** Processor time that all its threads have used so far, in ms. */
  cpuMs(): number;
  /** Resident memory, in KiB. */
  rssKiB(): number;
  close(): Promise<void>;
};

/**
 * Starts a server that prints its address. It is pinned to one core, so that the load on the others
 * does not disturb it.
 * @param core "all": the server may use every core
 * @param cwd the checkout whose code runs
 */
export async function startServer(
  args: string[],
  env: Record<string, string> = {},
  core: number | "all" = 0,
  cwd: string = process.cwd(),
): Promise<Server> {
  const cores = core === "all" ? `0-${CORES - 1}` : String(core); // else it would inherit the benchmark's own core
  const pin = CORES > 1 && process.platform === "linux" ? ["taskset", "-c", cores] : [];
  const debugPort = await freePort();
  const [command, ...rest] = [...pin, process.execPath, `--inspect-port=${debugPort}`, ...args] as [
    string,
    ...string[],
  ];
  const child = spawn(command, rest, {
    cwd,
    env: { PATH: process.env.PATH, PORT: "0", GRPC_PORT: "0", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const close = closing(() => end(child));
  const url = await urlOf(child);
  return {
    url,
    pid: child.pid as number,
    debugPort,
    cpuMs: () => {
      const threads = readdirSync(`/proc/${child.pid}/task`);
      const nanos = threads.map((thread) =>
        Number.parseInt(procFile(child, `task/${thread}/schedstat`), 10),
      );
      return nanos.reduce((sum, each) => sum + each, 0) / 1e6;
    },
    rssKiB: () => Number(/VmRSS:\s+(\d+)/.exec(procFile(child, "status"))?.[1]),
    close,
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, "close");
  child.kill("SIGTERM");
  await closed;
}

const procFile = ({ pid }: ChildProcess, name: string) =>
  readFileSync(`/proc/${pid}/${name}`, "utf8");

function urlOf(child: ChildProcess): Promise<string> {
  let output = "";
  return new Promise((resolve, reject) => {
    const look = (part: Buffer) => {
      if (output.length < 10_000) output += part;
      const port = /(?:127\.0\.0\.1|localhost):(\d+)/.exec(output)?.[1];
      if (port) resolve(`http://127.0.0.1:${port}`);
    };
    child.stdout?.on("data", look);
    child.stderr?.on("data", look);
    child.once("close", (code) => reject(new Error(`the server ended with ${code}: ${output}`)));
  });
}

/** One way to be measured: a server and the request that is sent to it. */
export type Contestant = {
  server: Server;
  request: Omit<autocannon.Options, "url"> & { path: string };
};
/**
 * What a load did: requests per second, processor time of the server per request in µs, and latency
 * in ms.
 */
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
 * Loads contestants in turns, so that what else the machine does meets all alike.
 * @returns the loads of each
 */
export async function inTurns<K extends string>(
  contestants: Record<K, Contestant>,
  { rounds = 5, seconds = 3, connections = 32 } = {},
): Promise<Record<K, Load[]>> {
  const names = Object.keys(contestants) as K[];
  const loads = Object.fromEntries(names.map((name) => [name, [] as Load[]])) as Record<K, Load[]>;
  for (const name of names) await load(contestants[name], 1, connections); // warm up
  for (let round = 0; round < rounds; round++) {
    for (const name of names) loads[name].push(await load(contestants[name], seconds, connections));
  }
  for (const name of names) {
    const failed = loads[name].reduce((sum, each) => sum + each.failed, 0);
    if (failed > 0)
      throw new Error(`${failed} requests to ${name} failed: the figures would mean nothing`);
  }
  return loads;
}

/** The middle one. */
export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/**
 * Prints what was seen: the median of each figure, and the median of the ratios to the first, round
 * by round.
 */
export function report(title: string, loads: Record<string, Load[]>): void {
  for (const [name, own] of Object.entries(loads)) {
    record(
      title,
      "per second",
      name,
      own.map(({ perSecond }) => perSecond),
    );
    record(
      title,
      "CPU µs",
      name,
      own.map(({ cpuMicros }) => cpuMicros),
    );
    record(
      title,
      "p99 ms",
      name,
      own.map(({ p99 }) => p99),
    );
  }
  const [[, base] = ["", []]] = Object.entries(loads);
  process.stdout.write(`\n${title}\n`);
  for (const [name, own] of Object.entries(loads)) {
    const share = median(own.map((each, i) => each.perSecond / (base[i]?.perSecond ?? 1)));
    const figures = [
      `${median(own.map((each) => each.perSecond))
        .toFixed(0)
        .padStart(7)} req/s`,
      `${median(own.map((each) => each.cpuMicros))
        .toFixed(0)
        .padStart(6)} µs CPU`,
      `p99 ${median(own.map((each) => each.p99))
        .toFixed(0)
        .padStart(4)} ms`,
      `share ${share.toFixed(2)}`,
    ];
    process.stdout.write(`  ${name.padEnd(34)} ${figures.join("   ")}\n`);
  }
}
