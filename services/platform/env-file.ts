import { readFileSync } from "node:fs";
import { parseEnv } from "node:util";

/** Reads `.env` where there is one; variables that are set already stay as they are. One that can't be read ends the process. */
export function loadEnvFile(env: NodeJS.ProcessEnv): void {
  try {
    const text = readFileSync(".env", "utf8");
    if (text.includes("\0")) throw new Error("it is to be UTF-8");
    for (const [name, value] of Object.entries(parseEnv(text.replace(/^\uFEFF/, "")))) env[name] ??= value;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return; // .env is optional
    process.stderr.write(`Gatehouse can't start:\n  .env can't be read: ${message}\n`);
    process.exit(1);
  }
}
