import { type ChildProcess, execFile, spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A process of Gatehouse. */
export type Process = Awaited<ReturnType<typeof startProcess>>;

/** The compile cache that all processes share. */
const COMPILED = join(tmpdir(), "gatehouse-test-compiled");
const MAIN = "gateway/main.ts";
/** The secret between gateway and services, unless a test chooses one. */
const INTERNAL_SECRET = "between-gateway-and-services";
/** An option for short processes: they end before optimizing the embedded database pays. */
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
  const child = spawn(process.execPath, [SHORT_LIVED, ...[main].flat()], {
    env: { PATH: process.env.PATH, PORT: "0", GRPC_PORT: "0", NODE_COMPILE_CACHE: COMPILED, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const isReady = new Promise<string>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (part: Buffer) => {
        output += part;
        const url = ready.exec(output)?.[1];
        if (url) resolve(url);
      });
    }
  });
  const ended = endOf(child);
  const url = await Promise.race([
    isReady,
    ended.then((code) => {
      throw new Error(`the process ended with ${code}: ${output}`);
    }),
  ]);
  /** Ends it by a signal. @returns its exit code, or the signal that ended it */
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal);
    return ended;
  };
  return {
    url,
    pid: child.pid as number,
    /** Its standard output and standard error so far. */
    output: () => output,
    end,
    close: () => end("SIGKILL"),
  };
}

/** Starts the services, and a gateway that calls them. @param gatewayEnv further variables of the gateway */
export async function startApart(
  env: Record<string, string>,
  gatewayEnv: Record<string, string> = {},
  root = process.cwd(),
) {
  const services = await startServices(env, root);
  const settings = { INTERNAL_SECRET, SERVICES_URL: `http://${services.url}`, ...env, ...gatewayEnv };
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

function endOf(child: ChildProcess): Promise<number | NodeJS.Signals> {
  return new Promise((resolve) => child.once("close", (code, signal) => resolve(code ?? (signal as NodeJS.Signals))));
}

/** Runs a script as npm does. */
export function runScript(script: string, args: string[], env: Record<string, string>, cwd = process.cwd()) {
  return new Promise<{ code: number; out: string }>((resolve) => {
    execFile(
      process.execPath,
      [SHORT_LIVED, join(process.cwd(), `scripts/${script}.ts`), ...args],
      { cwd, env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: COMPILED, ...env } },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), out: stdout + stderr }),
    );
  });
}
