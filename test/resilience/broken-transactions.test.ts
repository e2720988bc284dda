import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { isDatabaseUnavailable } from "../../services/store/errors.ts";
import { createDatabase } from "../support/database/databases.ts";
import { openQuietStore } from "../support/database/store.ts";
import { startProxy } from "../support/network/tcp-proxy.ts";
import { describeIf, forSuite, forTest } from "../support/suites.ts";

/** More than the connections of a process. */
const BREAKS = 12;

test.runIf(process.env.TEST_SERVERS)("Store: a statement is aborted at its timeout", async () => {
  const url = await createDatabase();
  const open = (statementMs: number) => forTest(openQuietStore(url, { statementMs }));
  const [lenient, strict] = await Promise.all([open(60_000), open(100)]);
  const ask = ({ fork }: typeof lenient) => fork().execute("select pg_sleep(1)");
  const [answered, refused] = await Promise.allSettled([ask(lenient), ask(strict)]);
  expect(answered.status).toBe("fulfilled");
  expect(refused.status === "rejected" && isDatabaseUnavailable(refused.reason)).toBe(true);
});

test("Store: a missing database socket means unavailable", async () => {
  const url = `postgres://gatehouse@localhost/gatehouse?host=${tmpdir()}/nowhere`;
  const opened = openQuietStore(url);
  await expect(opened).rejects.toThrow(
    "DATABASE_URL: the database is not reachable: connect ENOENT",
  );
});

describeIf(
  process.env.TEST_SERVERS,
  "Store with a connection that breaks in a transaction",
  async () => {
    const proxy = await forSuite(startProxy(await createDatabase()));

    test.each([
      ["at its start", "begin"],
      ["in its middle", "statement"],
      ["at its end", "commit"],
    ])("releases a connection that breaks %s, and can close", async (_when, at) => {
      const store = await openQuietStore(proxy.url);
      const breakAt = (moment: string) => moment === at && proxy.cut();
      for (let i = 0; i < BREAKS; i++) {
        const em = store.fork();
        await em.execute("select 1"); // opens a connection
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
      const store = await forTest(openQuietStore(proxy.url, { statementMs: 1_000 }));
      const em = store.fork();
      await em.execute("select 1");
      proxy.silence();
      const queries = [
        em.execute("select 2"),
        store.ping(),
        em.transactional(() => em.execute("select 3")),
      ];
      for (const outcome of await Promise.allSettled(queries)) {
        expect(outcome.status === "rejected" && isDatabaseUnavailable(outcome.reason)).toBe(true);
      }
      proxy.restore();
      await store.ping();
    });
  },
);
