// PostgreSQL servers and PgBouncers that a test starts, kills and freezes.

import { execFileSync } from "node:child_process";
import { chownSync, existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { addressOf, freePort, throughPort } from "../network/sockets.ts";
import { type Daemon, startDaemon } from "../processes/programs.ts";
import { temporaryFolder } from "../temporary-folder.ts";
import { until } from "../until.ts";
import { runSql } from "./databases.ts";

/** Where Debian keeps the programs of the newest PostgreSQL; undefined elsewhere. */
export const POSTGRES_BIN = globSync("/usr/lib/postgresql/*/bin/initdb")
  .map((initdb) => dirname(initdb))
  .sort(new Intl.Collator("en", { numeric: true }).compare)
  .at(-1);

/** The command that runs a program as PostgreSQL's user: some refuse to run as root. */
export const asPostgres = (program: string, args: string[]): [string, string[]] =>
  process.getuid?.() === 0
    ? [
        "setpriv",
        [
          "--reuid=postgres",
          "--regid=postgres",
          "--init-groups",
          "--pdeathsig=TERM",
          program,
          ...args,
        ],
      ]
    : [program, args];

/** An empty folder that PostgreSQL may write to. */
export function postgresFolder(parent = tmpdir()): string {
  const folder = temporaryFolder(parent);
  if (process.getuid?.() === 0) {
    const [uid, gid] = ["-u", "-g"].map((flag) => Number(execFileSync("id", [flag, "postgres"])));
    chownSync(folder, uid as number, gid as number);
    execFileSync("chmod", ["711", tmpdir()]); // other users must be able to enter it
  }
  return folder;
}

/**
 * A PostgreSQL server that a test may kill, freeze and start again. Its data is durable.
 * @param settings of the server, by name
 * @param folder of a base backup that becomes the data, or an empty one
 */
export async function startPostgresServer(
  settings: Record<string, string> = {},
  folder = postgresFolder(),
) {
  const bin = POSTGRES_BIN as string;
  const run = (program: string, args: string[]) => {
    const [command, words] = asPostgres(join(bin, program), args);
    return execFileSync(command, words, { cwd: "/", stdio: "pipe" });
  };
  const encoding = ["-E", "UTF8", "--locale", "C.UTF-8"];
  if (!existsSync(join(folder, "PG_VERSION")))
    run("initdb", ["-D", folder, "-A", "trust", "-U", "postgres", ...encoding, "--no-sync"]);
  const port = await freePort();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const serves = async () => {
    const [{ recovers }] = (await runSql(url, "select pg_is_in_recovery() as recovers")) as [
      { recovers: boolean },
    ];
    return !recovers || existsSync(join(folder, "standby.signal"));
  };
  const all = {
    port,
    unix_socket_directories: folder,
    listen_addresses: "127.0.0.1",
    max_connections: "60",
    ...settings,
  };
  const options = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const open = () =>
    startDaemon(...asPostgres(join(bin, "postgres"), ["-D", folder, ...options]), serves);
  let daemon: Daemon = await open();
  /** Signals the server and its children. Each connection is a process. */
  const signalAll = (signal: NodeJS.Signals) => {
    const children = execFileSync("ps", ["-o", "pid=", "--ppid", `${daemon.pid}`])
      .toString()
      .trim()
      .split(/\s+/);
    const pids = [daemon.pid, ...children.map(Number).filter(Boolean)];
    for (const pid of pids) {
      try {
        process.kill(pid, signal);
      } catch {} // the connection has ended
    }
    return pids;
  };
  return {
    url,
    port: Number(port),
    folder,
    freeze: () => signalAll("SIGSTOP"),
    thaw: () => signalAll("SIGCONT"),
    /** Ends all processes at once, as a power failure does, and starts with recovery. */
    async kill() {
      const pids = signalAll("SIGKILL");
      await daemon.close();
      await until("every process to be gone", () =>
        pids.every((pid) => !existsSync(`/proc/${pid}`)),
      );
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

export const PGBOUNCER = process.platform === "linux" ? "/usr/sbin/pgbouncer" : "pgbouncer";

/**
 * Starts PgBouncer before a database with the files of deploy. Only addresses and the file of
 * passwords are replaced.
 * @param settings further lines
 */
export async function startPgBouncer(databaseUrl: string, settings = "") {
  const { username, pathname } = new URL(databaseUrl);
  const [server, database] = [addressOf(databaseUrl), pathname.slice(1)];
  const [port, password, folder] = [await freePort(), "our-password", postgresFolder()];
  const pooler = readFileSync("deploy/pooler.sql", "utf8");
  await runSql(databaseUrl, pooler.replaceAll("role gatehouse", `database ${database}`));
  const text = readFileSync("deploy/pgbouncer.ini", "utf8")
    .replace("host=127.0.0.1 port=5432", `host=${server.host} port=${server.port} user=${username}`)
    .replace("gatehouse = host", `${database} = host`)
    .replace("listen_port = 6432", `listen_port = ${port}\nunix_socket_dir =`)
    .replace("/etc/pgbouncer", folder)
    .concat(settings);
  const file = join(folder, "pgbouncer.ini");
  writeFileSync(join(folder, "userlist.txt"), `"${username}" "${password}"`, { mode: 0o644 });
  writeFileSync(file, text, { mode: 0o644 });
  const { href: url } = Object.assign(new URL(throughPort(databaseUrl, Number(port))), {
    password,
  });
  const serves = async () => (await runSql(url, "select 1")).length === 1;
  const daemon = await startDaemon(...asPostgres(PGBOUNCER, [file]), serves);
  return { url, close: daemon.close };
}
