// Child processes: start, output, end.

import { spawn } from "node:child_process";
import { until } from "../until.ts";

/** Longer than any start on a busy machine. */
const LONGEST_START_MS = 110_000;

/** A server program that a test runs and ends. */
export type Daemon = Awaited<ReturnType<typeof startDaemon>>;

/**
 * Runs a program, and waits until it serves.
 * @param look what shows that, by the output so far; undefined or false before
 */
export async function startProgram<T>(
  program: string,
  args: string[],
  env: NodeJS.ProcessEnv,
  look: (output: string) => T | undefined | Promise<T | undefined>,
) {
  const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (part: Buffer) => (output += part));
  let end: number | string | undefined;
  const ended = new Promise<number | string>((resolve) => {
    child.once("error", ({ message }) => resolve(message));
    child.once("close", (code, signal) => resolve(code ?? (signal as NodeJS.Signals)));
  });
  void ended.then((how) => (end = how));
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const found = await until(
    `${program} to serve`,
    async () => {
      if (end !== undefined) throw new Error(`${program} ended with ${end}: ${output}`);
      return look(output);
    },
    LONGEST_START_MS,
  );
  return {
    found,
    pid: child.pid as number,
    /** Its standard output and standard error so far. */
    output: () => output,
    kill: (signal: NodeJS.Signals) => void child.kill(signal),
    /** Its exit code, or the signal that ended it, once its output has ended too. */
    ended,
    /** Resolves at its end, while its children may continue. */
    exited,
  };
}

/**
 * Runs a server program until `close`, on Linux at most as long as the thread that starts it.
 * @param isReady whether it serves
 */
export async function startDaemon(
  program: string,
  args: string[],
  isReady: () => boolean | Promise<boolean>,
  env: Record<string, string> = {},
) {
  const [command, words] =
    process.platform === "linux"
      ? (["setpriv", ["--pdeathsig=TERM", program, ...args]] as const)
      : ([program, args] as const);
  const look = () => Promise.resolve(isReady()).catch(() => false);
  const daemon = await startProgram(command, [...words], { ...process.env, ...env }, look);
  const close = async () => {
    for (const signal of ["SIGCONT", "SIGKILL"] as const) daemon.kill(signal);
    await daemon.exited;
  };
  return { ...daemon, close };
}
