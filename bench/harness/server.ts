import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { closing } from "./cleanup.ts";
import { ALL_CORES, pinned } from "./cores.ts";
import { freePort } from "./ports.ts";

/** A server process. */
export type Server = {
  url: string;
  pid: number;
  /** Port of its inspector, which opens when the process receives SIGUSR1. */
  debugPort: number;
  /** Its process id, and those of its workers. */
  pids(): number[];
  /** CPU time of all its threads and workers so far, in ms. */
  cpuMs(): number;
  /** Resident memory, workers included, in KiB. */
  rssKiB(): number;
  close(): Promise<void>;
};

/**
 * Starts a server that prints its address.
 * @param core the core to pin it to, so that the load on other cores does not disturb it; "all":
 * the server may use every core
 * @param cwd the checkout whose code runs
 * @throws Error with the server's output if it exits before it prints an address
 */
export async function startServer(
  args: string[],
  env: Record<string, string> = {},
  core: number | "all" = 0,
  cwd: string = process.cwd(),
): Promise<Server> {
  const pin = pinned(core === "all" ? ALL_CORES : String(core)); // otherwise it inherits the benchmark's own core
  const debugPort = await freePort();
  const [command, ...rest] = [...pin, process.execPath, `--inspect-port=${debugPort}`, ...args] as [
    string,
    ...string[],
  ];
  const child = spawn(command, rest, {
    cwd,
    env: {
      PATH: process.env.PATH,
      ...variablesOfStart(cwd),
      PORT: "0",
      GRPC_PORT: "0",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const close = closing(() => end(child));
  const url = await urlOf(child);
  return {
    url,
    pid: child.pid as number,
    debugPort,
    pids: () => processesOf(child.pid as number),
    cpuMs: () => sumOf(processesOf(child.pid as number).map(cpuMsOf)),
    rssKiB: () => sumOf(processesOf(child.pid as number).map(rssKiBOf)),
    close,
  };
}

/** The variables that `npm start` of a checkout sets. */
function variablesOfStart(root: string): Record<string, string> {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return Object.fromEntries([...scripts.start.matchAll(/\b([A-Z_]+)=(\S+)/g)].map(([, ...v]) => v));
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, "close");
  child.kill("SIGTERM");
  await closed;
}

const procFile = (pid: number, name: string) => readFileSync(`/proc/${pid}/${name}`, "utf8");
const sumOf = (values: number[]) => values.reduce((sum, each) => sum + each, 0);

/** A process and its workers. */
const processesOf = (pid: number): number[] => [
  pid,
  ...procFile(pid, `task/${pid}/children`).split(" ").filter(Boolean).map(Number),
];

/** CPU time of a process, in ms. */
export function cpuMsOf(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const nanos = threads.map((thread) =>
    Number.parseInt(procFile(pid, `task/${thread}/schedstat`), 10),
  );
  return sumOf(nanos) / 1e6;
}

const rssKiBOf = (pid: number) => Number(/VmRSS:\s+(\d+)/.exec(procFile(pid, "status"))?.[1]);

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
    child.once("close", (code) => reject(new Error(`the server exited with ${code}: ${output}`)));
  });
}
