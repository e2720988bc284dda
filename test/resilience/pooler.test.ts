import { execFileSync } from "node:child_process";
import { createServer } from "node:net";
import { describe, expect, test } from "vitest";
import { createDatabase } from "../support/database/databases.ts";
import { PGBOUNCER, startPgBouncer } from "../support/database/postgres-server.ts";
import { openQuietStore } from "../support/database/store.ts";
import { listen } from "../support/network/sockets.ts";
import { forTest, isMissing } from "../support/suites.ts";

const open = (url: string) => forTest(openQuietStore(url));

describe.skipIf(!process.env.TEST_SERVERS || isMissing("pgbouncer"))("Connection pooler", () => {
  test("keeps no lock of a migration on a connection that outlives its client", async () => {
    const direct = await createDatabase();
    const { url } = await forTest(startPgBouncer(direct, "server_reset_query ="));
    await (await open(url)).migrate();
    await expect((await open(direct)).migrate()).resolves.toBeUndefined(); // would wait for the lock
  });

  test("prevents the start if it confuses prepared statements", async () => {
    const [, minor] = /1\.(\d+)/.exec(execFileSync(PGBOUNCER, ["--version"]).toString()) ?? [];
    const untracked = Number(minor) > 20 ? "max_prepared_statements = 0\n" : ""; // older ones track none, and have no such setting
    const { url } = await forTest(
      startPgBouncer(await createDatabase(), `pool_mode = transaction\n${untracked}`),
    );
    await expect(open(url)).rejects.toThrow(
      /^DATABASE_URL can't be used: the connection pooler mixes up prepared/,
    );
  });
});

test("Connection pooler: an error names the settings that it must ignore", async () => {
  const message = "SFATAL\0C08P01\0Munsupported startup parameter: statement_timeout\0\0";
  const head = Buffer.from("E\0\0\0\0");
  head.writeInt32BE(message.length + 4, 1);
  const refusing = createServer((client) => {
    client
      .on("error", () => {})
      .once("data", () => client.end(head.toString("latin1") + message, "latin1"));
  });
  await forTest(refusing);
  const opened = open(`postgres://gatehouse@127.0.0.1:${await listen(refusing)}/gatehouse`);
  await expect(opened).rejects.toThrow(
    /rejects our settings: .* ignore the startup parameters statement_timeout and/,
  );
});
