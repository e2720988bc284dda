import { execFileSync } from "node:child_process";
import { availableParallelism } from "node:os";

/**
 * Number of cores of the machine. Read at start, since a process that is pinned to a core sees only
 * that one.
 */
export const CORES = availableParallelism();
export const ALL_CORES = `0-${CORES - 1}`;
const canPin = CORES > 1 && process.platform === "linux";

/** The command that runs another one on the given cores. Empty if this machine cannot pin. */
export const pinned = (cores: string): string[] => (canPin ? ["taskset", "-c", cores] : []);

/** Pins this process, which creates the load, to the given cores. */
export function pinLoad(cores: string): void {
  if (canPin) execFileSync("taskset", ["-apc", cores, String(process.pid)], { stdio: "ignore" });
}
