import { execFileSync } from "node:child_process";
import { describe } from "vitest";

/**
 * Whether a program is not installed. In CI it counts as installed, so that its absence fails the
 * test.
 */
export function isMissing(program: string): boolean {
  try {
    execFileSync("which", [program], {
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` },
    });
    return false;
  } catch {
    return !process.env.CI;
  }
}

/**
 * Describes a suite whose set-up runs while it is collected. It is collected only if that is
 * possible.
 */
export function describeIf(isPossible: unknown, name: string, begin: () => Promise<void>): void {
  if (isPossible) describe(name, begin);
  else describe.todo(name);
}
