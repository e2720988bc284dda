// Processes of Gatehouse and of its commands, and their metrics.

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { getPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { temporaryFolder } from "../temporary-folder.ts";
import { startProgram } from "./programs.ts";

/** A process of Gatehouse. */
export type Process = Awaited<ReturnType<typeof startProcess>>;

/** The compile cache that all processes share. */
const COMPILED = join(tmpdir(), "gatehouse-test-compiled");
const MAIN = "gateway/main.ts";
/** The secret between gateway and services, unless a test chooses one. */
const INTERNAL_SECRET = "between-gateway-and-services";
/** An option for short processes: they end before it pays off to optimize the embedded database. */
const SHORT_LIVED = "--liftoff-only";

/**
 * Starts `npm start`'s process on free ports and waits until it is ready.
 * @param main the script and its arguments
 * @param ready the line that says so, with the address
 */
export async function startProcess(
  env: Record<string, string>,
  main: string | string[] = MAIN,
  ready = /events on (https?:\/\/127\.0\.0\.1:\d+)/,
) {
  const variables = {
    PATH: process.env.PATH,
    PORT: "0",
    GRPC_PORT: "0",
    NODE_COMPILE_CACHE: COMPILED,
    ...env,
  };
  const look = (output: string) => ready.exec(output)?.[1];
  const started = await startProgram(
    process.execPath,
    [SHORT_LIVED, ...[main].flat()],
    variables,
    look,
  );
  /**
   * Ends it by a signal.
   * @returns its exit code, or the signal that ended it
   */
  const end = (signal: NodeJS.Signals) => {
    started.kill(signal);
    return started.ended;
  };
  return { ...started, url: started.found, end, close: () => end("SIGKILL") };
}

/** Variables that the replicas of one deployment share. */
export const sharedVariables = () => ({
  SECRET_KEY: randomBytes(32).toString("base64"),
  DATA_DIR: temporaryFolder(),
  PUBLIC_URL: "http://gatehouse.test",
  TRUST_PROXY: "127.0.0.1",
});

/**
 * Starts the services, and a gateway that calls them.
 * @param gatewayEnv further variables of the gateway
 */
export async function startApart(
  env: Record<string, string>,
  gatewayEnv: Record<string, string> = {},
  root = process.cwd(),
) {
  const services = await startServices(env, root);
  const settings = {
    INTERNAL_SECRET,
    SERVICES_URL: `http://${services.url}`,
    ...env,
    ...gatewayEnv,
  };
  const gateway = await startProcess(settings, join(root, MAIN));
  return { services, gateway, close: () => Promise.all([services.close(), gateway.close()]) };
}

/** Starts services without a gateway. `url` is the address of their port. */
export const startServices = (env: Record<string, string>, root = process.cwd()) =>
  startProcess(
    { INTERNAL_SECRET, ...env },
    join(root, "services/main.ts"),
    /gRPC-Web and Connect on (127\.0\.0\.1:\d+)/,
  );

/** Runs a script as npm does. */
export function runScript(
  script: string,
  args: string[],
  env: Record<string, string>,
  cwd = process.cwd(),
) {
  return new Promise<{ code: number; out: string }>((resolve) => {
    execFile(
      process.execPath,
      [SHORT_LIVED, join(process.cwd(), `scripts/commands/${script}.ts`), ...args],
      { cwd, env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: COMPILED, ...env } },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), out: stdout + stderr }),
    );
  });
}

/** The metrics of a process by name and labels. */
export async function readMetrics(port: string): Promise<Map<string, number>> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  expect(response.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
  const lines = (await response.text())
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => [line.replace(/ \S+$/, ""), Number(line.replace(/^.* /, ""))]),
  );
}

/** The threads of Node's pool that run at low priority. */
export function lowThreadsOf(pid: number): number {
  const folder = `/proc/${pid}/task`;
  const isLow = (thread: string) => {
    try {
      const name = readFileSync(`${folder}/${thread}/comm`, "utf8").trim();
      return name === "libuv-worker" && getPriority(Number(thread)) === 10;
    } catch {
      return false; // it has ended
    }
  };
  return readdirSync(folder).filter(isLow).length;
}
