import { execFileSync } from "node:child_process";
import { describe } from "vitest";

/** Whether a program is there; where it has to be, its absence fails the test that calls it. */
export function isMissing(program: string): boolean {
  try {
    execFileSync("which", [program], { env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` } });
    return false;
  } catch {
    return !process.env.CI;
  }
}

/** A suite that begins something as soon as it is read, and so is read only where that can be. */
export function describeIf(isPossible: unknown, name: string, begin: () => Promise<void>): void {
  if (isPossible) describe(name, begin);
  else describe.todo(name);
}
