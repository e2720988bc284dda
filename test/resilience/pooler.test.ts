import { createServer } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { createDatabase } from "../support/databases.ts";
import { startPgBouncer } from "../support/pgbouncer.ts";
import { startPooler } from "../support/pooler.ts";
import { isMissing } from "../support/skip-without.ts";
import { listen } from "../support/sockets.ts";
import { openQuietStore } from "../support/stores.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const closer of closers.splice(0).reverse()) await closer();
});

/** An empty database, directly and through a pooler. */
async function pooled(mode: "session" | "transaction") {
  const direct = await createDatabase();
  const pooler = await startPooler(direct, mode);
  closers.push(pooler.close);
  return { direct, through: pooler.url };
}

async function open(url: string) {
  const store = await openQuietStore(url);
  closers.push(store.close);
  return store;
}

describe.runIf(process.env.TEST_SERVERS)("Connection pooler", () => {
  test("keeps no lock of a migration on a connection that outlives its client", async () => {
    const { direct, through } = await pooled("session");
    await (await open(through)).migrate();
    await expect((await open(direct)).migrate()).resolves.toBeUndefined(); // would wait for the lock
  });

  test("prevents the start if it confuses prepared statements", async () => {
    const { through } = await pooled("transaction");
    await expect(open(through)).rejects.toThrow(/^DATABASE_URL can't be used: the connection pooler mixes up prepared/);
  });

  test.skipIf(isMissing("pgbouncer"))("with a password, and the files of deploy: health checks pass", async () => {
    const pgBouncer = await startPgBouncer(await createDatabase());
    closers.push(pgBouncer.close);
    await expect((await open(pgBouncer.url)).ping()).resolves.toBeUndefined();
  });
});

test("Connection pooler: a warning names the settings that it must ignore", async () => {
  const message = "SFATAL\0C08P01\0Munsupported startup parameter: statement_timeout\0\0";
  const refusing = createServer((client) => {
    client
      .on("error", () => {})
      .once("data", () => {
        const head = Buffer.from("E\0\0\0\0");
        head.writeInt32BE(message.length + 4, 1);
        client.end(Buffer.concat([head, Buffer.from(message)]));
      });
  });
  closers.push(() => refusing.close());
  const opened = open(`postgres://gatehouse@127.0.0.1:${await listen(refusing)}/gatehouse`);
  await expect(opened).rejects.toThrow(/refuses our settings: .* ignore the startup parameters statement_timeout and/);
});
