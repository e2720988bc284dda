import { readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { type Config, type ProcessRole, readConfig } from "./config.ts";

/** Ends a process that can't start, with one line per problem on standard error. */
export function refuseStart(problems: string[]): never {
  process.stderr.write(`Gatehouse can't start:\n${problems.map((problem) => `  ${problem}\n`).join("")}`);
  process.exit(1);
}

/** Reads the settings of a process. Ends it if there are problems. */
export function readConfigOrExit(env: NodeJS.ProcessEnv, role: ProcessRole): Config {
  const read = readConfig(env, role);
  return "problems" in read ? refuseStart(read.problems) : read.config;
}

/**
 * Reads `.env` if it exists. Variables that are set already keep their values. A file that can't be read ends the process.
 * Unlike `process.loadEnvFile` it accepts a byte order mark and rejects UTF-16.
 */
export function loadEnvFile(env: NodeJS.ProcessEnv): void {
  try {
    const text = readFileSync(".env", "utf8");
    if (text.includes("\0")) throw new Error("it is to be UTF-8");
    for (const [name, value] of Object.entries(parseEnv(text.replace(/^\uFEFF/, "")))) env[name] ??= value;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== "ENOENT") refuseStart([`.env can't be read: ${message}`]);
  }
}

/**
 * Opens a port.
 * @param host the variable with the address, for the error message
 * @param port the variable with the port
 * @throws Error for operators that names the variable to change
 */
export async function listenOrExplain<T>(host: string, port: string, listen: () => Promise<T>): Promise<T> {
  try {
    return await listen();
  } catch (cause) {
    const { code, syscall, message } = cause as NodeJS.ErrnoException;
    if (syscall !== "listen" && syscall !== "getaddrinfo") throw cause;
    const explanations: Record<string, string> = {
      EADDRINUSE: `${port} is taken: ${message}. Stop what listens there, or change ${port}.`,
      EACCES: `${port} is not for this user: ${message}. Change it to one above 1023.`,
    };
    const otherwise = `${host} must be an address of this machine or a name of one: ${message}.`;
    throw new Error(explanations[code ?? ""] ?? otherwise, { cause });
  }
}
