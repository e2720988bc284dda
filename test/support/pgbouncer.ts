import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { startDaemon } from "./daemon.ts";
import { freePort } from "./metrics.ts";

/** Puts PgBouncer before a database, with the files of deploy: they differ in addresses and in who may connect alone. */
export async function startPgBouncer(databaseUrl: string) {
  const { hostname, port: far, username, pathname } = new URL(databaseUrl);
  const database = pathname.slice(1);
  const port = await freePort();
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await client.query(readFileSync("deploy/pooler.sql", "utf8").replaceAll("role gatehouse", `database ${database}`));
  await client.end();
  const text = readFileSync("deploy/pgbouncer.ini", "utf8")
    .replace(
      "gatehouse = host=127.0.0.1 port=5432",
      `${database} = host=${hostname} port=${far || 5432} user=${username}`,
    )
    .replace("listen_port = 6432", `listen_port = ${port}\nunix_socket_dir =`)
    .replace("auth_type = scram-sha-256", "auth_type = any")
    .replace(/^auth_file.*$/m, "");
  const file = join(mkdtempSync(join(tmpdir(), "gatehouse-pgbouncer-")), "pgbouncer.ini");
  writeFileSync(file, text, { mode: 0o644 });
  const url = Object.assign(new URL(databaseUrl), { host: `127.0.0.1:${port}` }).href;
  const serves = async () => {
    const probe = new pg.Client(url);
    await probe.connect();
    await probe.end();
    return true;
  };
  const user = process.getuid?.() === 0 ? ["-u", "postgres"] : [];
  const program = process.platform === "linux" ? "/usr/sbin/pgbouncer" : "pgbouncer";
  const daemon = await startDaemon(program, [...user, file], serves);
  return { url, close: daemon.close };
}
