import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { pino } from "pino";
import { expect, test } from "vitest";
import { isDatabaseUnavailable } from "../../services/store/errors.ts";
import { openStore } from "../../services/store/open-store.ts";
import { createDatabase } from "../support/databases.ts";
import { startProxy } from "../support/proxy.ts";
import { describeIf } from "../support/skip-without.ts";

/** More than a process has connections. */
const BREAKS = 12;

test.runIf(process.env.TEST_SERVERS)("Store: a statement runs up to its timeout and no longer", async () => {
  const url = await createDatabase(`patient_${randomUUID().slice(0, 8)}`);
  const open = (statementMs: number) => openStore({ kind: "postgres", url, statementMs }, pino({ level: "silent" }));
  const [patient, hasty] = await Promise.all([open(60_000), open(100)]);
  const ask = ({ fork }: typeof patient) => fork().execute("select pg_sleep(1)");
  const [answered, refused] = await Promise.allSettled([ask(patient), ask(hasty)]);
  expect(answered.status).toBe("fulfilled");
  expect(refused.status === "rejected" && isDatabaseUnavailable(refused.reason)).toBe(true);
  await Promise.all([patient.close(), hasty.close()]);
});

test("Store: a missing database socket means unavailable", async () => {
  const url = `postgres://gatehouse@localhost/gatehouse?host=${tmpdir()}/nowhere`;
  const opened = openStore({ kind: "postgres", url }, pino({ level: "silent" }));
  await expect(opened).rejects.toThrow("DATABASE_URL: the database is not reachable: connect ENOENT");
});

describeIf(process.env.TEST_SERVERS, "Store with a connection that breaks in a transaction", async () => {
  const database = new URL(await createDatabase(`broken_${randomUUID().slice(0, 8)}`));
  const proxy = await startProxy({ host: database.hostname, port: Number(database.port || 5432) });
  database.host = `127.0.0.1:${proxy.port}`;

  test.each([
    ["at its start", "begin"],
    ["in its middle", "statement"],
    ["at its end", "commit"],
  ])("releases the connection that breaks %s, and can close", async (_when, at) => {
    const store = await openStore({ kind: "postgres", url: database.href }, pino({ level: "silent" }));
    const breakAt = (moment: string) => moment === at && proxy.cut();
    for (let i = 0; i < BREAKS; i++) {
      const em = store.fork();
      await em.execute("select 1"); // a connection is there
      breakAt("begin");
      const work = em.transactional(async () => {
        breakAt("statement");
        await em.execute("select 1");
        breakAt("commit");
      });
      await expect(work).rejects.toThrow();
      proxy.restore();
    }
    await store.ping();
    await store.close();
  });

  test("releases a connection that is silent for longer than the statement timeout", async () => {
    const store = await openStore(
      { kind: "postgres", url: database.href, statementMs: 1_000 },
      pino({ level: "silent" }),
    );
    const em = store.fork();
    await em.execute("select 1");
    proxy.silence();
    const asked = [em.execute("select 2"), store.ping(), em.transactional(() => em.execute("select 3"))];
    for (const outcome of await Promise.allSettled(asked)) {
      expect(outcome.status === "rejected" && isDatabaseUnavailable(outcome.reason)).toBe(true);
    }
    proxy.restore();
    await store.ping();
    await store.close();
  });
});
