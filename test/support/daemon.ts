import { type ChildProcess, spawn } from "node:child_process";
import { until } from "./until.ts";

/** A server program that a test runs and ends. */
export type Daemon = { pid: number; output(): string; kill(signal: NodeJS.Signals): void; close(): Promise<void> };

/** Runs a server program until `close`, on Linux at most as long as the thread that starts it. @param isReady whether it serves */
export async function startDaemon(
  program: string,
  args: string[],
  isReady: () => boolean | Promise<boolean>,
  env: Record<string, string> = {},
): Promise<Daemon> {
  const isLinux = process.platform === "linux";
  const words = isLinux ? ["--pdeathsig=TERM", program, ...args] : args;
  const child: ChildProcess = spawn(isLinux ? "setpriv" : program, words, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (part: Buffer) => (output += part));
  let failure: string | undefined;
  const ended = new Promise<void>((resolve) => {
    const end = (why: string) => {
      failure = why;
      resolve();
    };
    child.once("error", ({ message }) => end(message)).once("exit", (code) => end(`exit code ${code}`));
  });
  const kill = (signal: NodeJS.Signals) => void child.kill(signal);
  await until(`${program} to serve`, () => {
    if (failure) throw new Error(`${program}: ${failure}: ${output}`);
    return Promise.resolve(isReady()).catch(() => false);
  });
  return {
    pid: child.pid as number,
    output: () => output,
    kill,
    close: () => {
      for (const signal of ["SIGCONT", "SIGKILL"] as const) kill(signal);
      return ended;
    },
  };
}
