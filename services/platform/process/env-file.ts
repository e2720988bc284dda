import { readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { refuseStart } from "./start.ts";

/**
 * Reads `.env` if it exists. Variables that are already set keep their values. Ends the process if
 * the file can't be read. Unlike `process.loadEnvFile`, it accepts a byte order mark and rejects
 * UTF-16.
 */
export function loadEnvFile(env: NodeJS.ProcessEnv, exitCode?: number): void {
  try {
    const text = readFileSync(".env", "utf8");
    if (text.includes("\0")) throw new Error("it must be UTF-8");
    for (const [name, value] of Object.entries(parseEnv(text.replace(/^\uFEFF/, ""))))
      env[name] ??= value;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== "ENOENT") refuseStart([`.env can't be read: ${message}`], exitCode);
  }
}
