import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startDaemon } from "./daemon.ts";
import { runSql } from "./databases.ts";
import { freePort } from "./metrics.ts";
import { asPostgres, postgresFolder } from "./postgres-server.ts";
import { addressOf, throughPort } from "./sockets.ts";

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
