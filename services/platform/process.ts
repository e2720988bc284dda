import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { enableCompileCache } from "node:module";
import { connect } from "node:net";
import { availableParallelism, constants, setPriority } from "node:os";
import { join } from "node:path";
import { createSecureContext } from "node:tls";
import { parseEnv } from "node:util";
import { type Config, type ProcessRole, readConfig } from "./config.ts";
import { shuttingDown, toConnectError } from "./errors.ts";

/** The only source of the present time. Tests move it. */
export type Clock = { now(): Date };

export const systemClock: Clock = { now: () => new Date() };

/** Threads for DNS and files, beside one per core on which passwords are hashed. */
const OTHER_THREADS = 4;

/**
 * Prepares Node. Call it before large modules are loaded: the start takes a quarter less time with
 * compiled code at hand.
 */
export function prepareNode(): void {
  process.env.UV_THREADPOOL_SIZE ??= String(availableParallelism() + OTHER_THREADS); // read at the first use of the pool
  enableCompileCache(join(import.meta.dirname, "../../node_modules/.cache/gatehouse")); // does nothing if it is read-only
}

/**
 * Lets the threads of the pool yield to the main thread, since hashes would take every core from it
 * during a flood of logins. Call it once the pool is in use. Does nothing where `/proc` does not
 * name threads, as on other systems than Linux.
 */
export function lowerPoolPriority(): void {
  try {
    for (const thread of readdirSync("/proc/self/task")) {
      const name = readFileSync(`/proc/self/task/${thread}/comm`, "utf8").trim();
      if (name === "libuv-worker")
        setPriority(Number(thread), constants.priority.PRIORITY_BELOW_NORMAL);
    }
  } catch {} // it is faster with it, and works without
}

/**
 * Returns the memory that the start has used and nothing needs any more: 70 MB, which Node would
 * keep. Takes 50 ms.
 */
export async function collectGarbage(): Promise<void> {
  const session = new Session();
  session.connect();
  await session.post("HeapProfiler.collectGarbage");
  session.disconnect();
}

/** Ends a process that can't start, with one line per problem on standard error. */
export function refuseStart(problems: string[], exitCode = 1): never {
  process.stderr.write(
    `Gatehouse can't start:\n${problems.map((problem) => `  ${problem}\n`).join("")}`,
  );
  process.exit(exitCode);
}

/**
 * Reads the settings of a process, and checks what they name, before anything is opened. Ends the
 * process with all problems.
 * @param checksOf further checks of the files and addresses in the settings, which throw their
 * problem
 */
export async function readConfigOrExit(
  env: NodeJS.ProcessEnv,
  role: ProcessRole,
  checksOf: (config: Config) => (() => unknown)[] = () => [],
): Promise<Config> {
  const { config, problems } = readConfig(env, role);
  const checks = [() => readTlsFiles(config.tls), ...checksOf(config)];
  for (const result of await Promise.allSettled(checks.map(async (check) => check()))) {
    if (result.status === "rejected") problems.push(result.reason.message);
  }
  return problems.length > 0 ? refuseStart(problems) : config;
}

/**
 * Reads `.env` if it exists. Variables that are set already keep their values. A file that can't be
 * read ends the process. Unlike `process.loadEnvFile` it accepts a byte order mark and rejects
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

/**
 * Opens a port.
 * @param host, port the variables with address and port
 * @throws Error for operators that names one to change
 */
export async function listenOrExplain<T>(
  host: string,
  port: string,
  listen: () => Promise<T>,
): Promise<T> {
  try {
    return await listen();
  } catch (cause) {
    const { code, syscall, message } = cause as NodeJS.ErrnoException;
    if (syscall !== "listen" && syscall !== "getaddrinfo") throw cause;
    const explanations: Record<string, string> = {
      EADDRINUSE: `${port} is taken: ${message}. Stop what listens there, or change ${port}.`,
      EACCES: `${port} is not for this user: ${message}. Use a port above 1023, or a folder that it may write to.`,
    };
    const otherwise = `${host} must be an address of this machine or a name of one: ${message}.`;
    throw new Error(explanations[code ?? ""] ?? otherwise, { cause });
  }
}

/**
 * Removes the Unix socket of a process that has died, whose address would be in use for ever. Other
 * files stay.
 */
export async function removeStaleSocket(path: string): Promise<void> {
  if (!statSync(path, { throwIfNoEntry: false })?.isSocket()) return;
  const probe = connect(path);
  const refused = await once(probe, "connect").catch(
    (error: NodeJS.ErrnoException) => error.code === "ECONNREFUSED",
  );
  probe.destroy();
  if (refused === true) rmSync(path, { force: true });
}

/** Paths of a certificate, its key, and the authority of the other side's certificate. */
export type TlsFiles = Partial<Config["tls"]>;

/**
 * Reads the TLS files. Clients must present a certificate of the authority.
 * @throws Error for operators
 */
export function readTlsFiles({ cert, key, ca }: TlsFiles) {
  try {
    const own = cert &&
      key && { cert: readNamed("GRPC_TLS_CERT", cert), key: readNamed("GRPC_TLS_KEY", key) };
    const files = { ...own, ...(ca && { ca: readNamed("GRPC_TLS_CA", ca), requestCert: true }) };
    createSecureContext(files); // throws unless they are a certificate and its key
    if (files.ca) new X509Certificate(files.ca); // a context takes any text for an authority
    return files;
  } catch (error) {
    throw new Error(
      `GRPC_TLS_CERT, GRPC_TLS_KEY or GRPC_TLS_CA can't be used: ${(error as Error).message}`,
    );
  }
}

/**
 * Reads the file that a variable names. The error does not quote the path: it may be a key in the
 * place of one.
 */
function readNamed(variable: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(
      `${variable} names no file that can be read (${(error as NodeJS.ErrnoException).code})`,
    );
  }
}

/**
 * Time for closing after all requests have ended: e-mails in delivery, the last audit seal,
 * connections. In ms.
 */
const CLOSE_TIMEOUT_MS = 20_000;
/**
 * `npm start` repeats a signal that the whole process group has received already, within this many
 * ms.
 */
const SIGNAL_REPEAT_MS = 1_000;
/** Exit code that shells give a process ended by SIGINT. */
const SIGINT_EXIT_CODE = 130;

/**
 * Drains, then closes, at the first SIGTERM or SIGINT. A second Ctrl-C at a terminal ends the
 * process at once.
 */
export function shutdownOnSignal(
  drain: () => Promise<unknown>,
  close: () => Promise<unknown>,
): void {
  let startedAt: number | undefined;
  const shutdown = async (signal: NodeJS.Signals) => {
    if (startedAt !== undefined) {
      if (signal === "SIGINT" && performance.now() - startedAt > SIGNAL_REPEAT_MS)
        process.exit(SIGINT_EXIT_CODE);
      return;
    }
    startedAt = performance.now();
    if (signal === "SIGINT")
      process.stderr.write("\nEnding when open requests are done. Ctrl-C again ends at once.\n");
    await drain();
    setTimeout(() => process.exit(1), CLOSE_TIMEOUT_MS).unref();
    await close();
    process.exit(0);
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, shutdown);
}

/**
 * Time for aborted calls to send their last response before their connections are closed, in ms.
 */
const ABORT_GRACE_MS = 1_000;

/**
 * Waits until a server has closed. Open calls have `graceMs` to end, then they are aborted.
 * @param cut closes all connections
 */
export async function closeWithin(
  closed: Promise<unknown>,
  graceMs: number,
  calls: Iterable<AbortController>,
  cut: () => void,
): Promise<void> {
  const abort = () => {
    for (const call of calls) call.abort(toConnectError(shuttingDown()));
  };
  const timers = [setTimeout(abort, graceMs), setTimeout(cut, graceMs + ABORT_GRACE_MS)];
  await closed;
  for (const timer of timers) clearTimeout(timer);
}
