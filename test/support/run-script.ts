import { execFile } from "node:child_process";
import { join } from "node:path";
import { COMPILED, SHORT_LIVED } from "./process.ts";

/** Runs a script as npm does. */
export function run(script: string, args: string[], env: Record<string, string>, cwd = process.cwd()) {
  return new Promise<{ code: number; out: string }>((resolve) => {
    execFile(
      process.execPath,
      [SHORT_LIVED, join(process.cwd(), `scripts/${script}.ts`), ...args],
      { cwd, env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: COMPILED, ...env } },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), out: stdout + stderr }),
    );
  });
}
