import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { text } from "node:stream/consumers";

/** What an attacker can do. */
export const ATTACKS = [
  "no attack",
  "half-open gRPC calls",
  "gRPC calls that are reset",
  "gRPC calls whose bodies drip",
  "gRPC tokens of unknown keys",
  "pipelined requests that are not read",
  "half-open REST requests",
  "REST bodies that drip",
  "half-sent headers",
  "REST tokens of unknown keys",
  "connections of the internal listener",
] as const;
export type AttackName = (typeof ATTACKS)[number];

/** One attack of one process from one address. */
export type Attack = {
  name: AttackName;
  /** Of this machine: all of 127.0.0.0/8 is. */
  address: string;
  ports: { rest: number; grpc: number; internal: number };
  /** Of a user; without it the attacker has not signed in. */
  token?: string | undefined;
  ms: number;
};

/**
 * Runs an attack for its time.
 * @returns the number of connections that the attacker opened
 */
export const runAttack = async (attack: Attack): Promise<number> =>
  Number(await runElsewhere(new URL("attacker.ts", import.meta.url), attack));

/**
 * Runs a script as if it had its own machine, as attackers have in production: it gets what the
 * others leave of the cores.
 * @param task its argument
 * @returns what it prints
 */
export async function runElsewhere(script: URL, task: object): Promise<string> {
  const command = [process.execPath, script.pathname, JSON.stringify(task)];
  const child = spawn("chrt", ["--idle", "0", ...command], {
    stdio: ["ignore", "pipe", "inherit"],
    detached: true, // a session of its own
  });
  lowerSession(child.pid);
  const [printed] = await Promise.all([text(child.stdout), once(child, "close")]);
  return printed;
}

/** The least share of CPU that a session can have (`setpriority(2)`). */
const LEAST_NICE = 19;

/**
 * Gives the session of a process the least CPU. Where Linux groups processes by session
 * (`sched(7)`, "The autogroup feature"), priorities only count within a session: the attacker would
 * get as much as a connection of PostgreSQL.
 */
function lowerSession(pid: number | undefined): void {
  const group = `/proc/${pid}/autogroup`;
  if (existsSync(group)) writeFileSync(group, String(LEAST_NICE));
}

/** Clock ticks of Linux in a second. */
const TICKS = 100;

/** The CPU time that a process has used, in seconds. */
export function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

const MIB = 1024;

/** Begins to measure the largest memory of a process. */
export const resetPeak = (pid: number): void => writeFileSync(`/proc/${pid}/clear_refs`, "5");

/** The largest resident memory of a process since the last reset, in MiB. */
export function peakOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / MIB);
}
