import { execFileSync } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { type Daemon, startDaemon } from "./daemon.ts";
import { freePort } from "./metrics.ts";
import { until } from "./until.ts";

const ROOT = "/usr/lib/postgresql";
/** Where Debian keeps the programs of the newest PostgreSQL; undefined elsewhere. */
export const POSTGRES_BIN = existsSync(ROOT)
  ? readdirSync(ROOT)
      .sort((a, b) => Number(a) - Number(b))
      .map((version) => join(ROOT, version, "bin"))
      .findLast((bin) => existsSync(join(bin, "initdb")))
  : undefined;

const asPostgres = (program: string, args: string[]): [string, string[]] =>
  process.getuid?.() === 0
    ? ["setpriv", ["--reuid=postgres", "--regid=postgres", "--init-groups", program, ...args]]
    : [program, args];

/** A PostgreSQL server of a test's own, which it may kill, freeze and start again. Its data is durable. */
export async function startPostgresServer() {
  const bin = POSTGRES_BIN as string;
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-postgres-"));
  if (process.getuid?.() === 0) {
    const [uid, gid] = ["-u", "-g"].map((flag) => Number(execFileSync("id", [flag, "postgres"])));
    chownSync(folder, uid as number, gid as number);
    execFileSync("chmod", ["711", tmpdir()]); // the folder of a run is closed to others
  }
  const run = (program: string, args: string[]) => {
    const [command, words] = asPostgres(join(bin, program), args);
    return execFileSync(command, words, { cwd: "/", stdio: "pipe" });
  };
  run("initdb", ["-D", folder, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale", "C.UTF-8", "--no-sync"]);
  const port = await freePort();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const serves = async () => {
    const client = new pg.Client(url);
    await client.connect();
    await client.end();
    return true;
  };
  const options = ["-p", port, "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=60"];
  const open = () => startDaemon(...asPostgres(join(bin, "postgres"), ["-D", folder, ...options]), serves);
  let daemon: Daemon = await open();
  /** The server and its children: each connection is a process. */
  const signalAll = (signal: NodeJS.Signals) => {
    const children = execFileSync("ps", ["-o", "pid=", "--ppid", `${daemon.pid}`])
      .toString()
      .trim()
      .split(/\s+/);
    const pids = [daemon.pid, ...children.map(Number).filter(Boolean)];
    for (const pid of pids) {
      try {
        process.kill(pid, signal);
      } catch {} // a connection that has ended meanwhile
    }
    return pids;
  };
  return {
    url,
    port: Number(port),
    freeze: () => signalAll("SIGSTOP"),
    thaw: () => signalAll("SIGCONT"),
    /** As a power failure: everything ends at once, and recovery starts from the log. */
    async kill() {
      const pids = signalAll("SIGKILL");
      await daemon.close();
      await until("every process to be gone", () => pids.every((pid) => !existsSync(`/proc/${pid}`)));
      daemon = await open();
    },
    /** Runs a program of PostgreSQL, such as pg_dump. */
    run,
    close: async () => {
      signalAll("SIGCONT");
      daemon.kill("SIGQUIT");
      await daemon.close();
    },
  };
}
