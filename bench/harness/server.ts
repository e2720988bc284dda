import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { closing } from "./cleanup.ts";
import { ALL_CORES, pinned } from "./cores.ts";
import { freePort } from "./ports.ts";

/** A server process. */
export type Server = {
  url: string;
  pid: number;
  /** Port of its inspector, which opens when the process receives SIGUSR1. */
  debugPort: number;
  /** CPU time of all its threads so far, in ms. */
  cpuMs(): number;
  /** Resident memory, in KiB. */
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
    child.once("close", (code) => reject(new Error(`the server exited with ${code}: ${output}`)));
  });
}
