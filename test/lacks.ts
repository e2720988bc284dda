import { execFileSync } from "node:child_process";

/** Whether a program is there; where it has to be, its absence fails the test that calls it. */
export function lacks(program: string): boolean {
  try {
    execFileSync("which", [program]);
    return false;
  } catch {
    return !process.env.CI;
  }
}
