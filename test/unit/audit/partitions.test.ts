import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { addPartitions, dropPartitions } from "../../../services/audit/worker.ts";
import { ENGINES } from "../../support/database/engines.ts";
import { until } from "../../support/until.ts";
import { openAuditFixture } from "./fixture.ts";

describe.each(ENGINES)("Audit partitions on %s", async (engine) => {
  const {
    store,
    sql,
    clock,
    inDays,
    tamper,
    record,
    sealedLog,
    verify,
    seal,
    sealDeps,
    startWorker,
  } = await openAuditFixture(engine);
  /** A sealed event of today, and one of a month that is over. */
  async function sealTwoMonths(): Promise<void> {
    await sealedLog([1]);
    await record(0, { now: () => inDays(-80) });
    await seal(inDays(-80));
  }

  // PGlite has one connection, so that no statement waits for another
  test.skipIf(engine === "PGlite")(
    "a partition for a new month blocks no writer during a long read",
    async () => {
      await sealedLog([1]);
      const later = inDays(200);
      const read = Promise.withResolvers<void>();
      const em = store.fork();
      const reader = em.transactional(async () => {
        await em.execute("select 1 from audit_events limit 1");
        await read.promise;
      });
      await until("the reader", async () => (await locks("granted")) > 0);
      const refused = addPartitions({ em: store.fork() }, later).catch(
        (error: Error) => error.message,
      );
      await until(
        "the partition to wait for the reader",
        async () => (await locks("not granted")) > 0,
      );
      const answered = await Promise.race([record(1).then(() => true), wait(6_000, false)]);
      read.resolve();
      await reader;
      expect(answered).toBe(true);
      expect(await refused).toContain("lock timeout");
      await addPartitions({ em: store.fork() }, later);
      await seal();
      expect(await verify()).toMatchObject({ findings: [], events: 2, unsealed: 0 });
    },
  );

  async function locks(which: "granted" | "not granted"): Promise<number> {
    const [row] = await sql<{ count: number }>(
      `select count(*)::int from pg_locks l join pg_database d on d.oid = l.database
         where d.datname = current_database() and relation = 'audit_events'::regclass and ${which}`,
    );
    return row?.count ?? 0;
  }

  test.each([
    { what: "drops old months in the background", auditRetentionMs: 40 * 86_400_000, kept: 1 },
    { what: "keeps every month where retention is off", auditRetentionMs: 0, kept: 2 },
  ])("$what", async ({ auditRetentionMs, kept }) => {
    await sealTwoMonths();
    await startWorker(undefined, auditRetentionMs).close();
    expect(await verify()).toMatchObject({ findings: [], events: kept, dropped: 2 - kept });
  });

  test.skipIf(engine === "PGlite")(
    "a month that is due for dropping during a verification is not reported",
    async () => {
      await sealTwoMonths();
      const em = store.fork();
      const execute = em.execute.bind(em) as (...given: unknown[]) => Promise<never>;
      const [begun, dropped] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      em.execute = async (...given: unknown[]) => {
        const rows = await execute(...given);
        begun.resolve();
        await dropped.promise;
        return rows;
      };
      const verification = verify(undefined, { em, now: clock.now() });
      await begun.promise;
      await dropPartitions(sealDeps(), clock.now(), clock.now()).catch(() => {}); // it waits for the verification, in vain
      dropped.resolve();
      expect(await verification).toMatchObject({ findings: [], events: 2 });
    },
  );

  test("sealed old months are dropped as a whole, and the chain records it", async () => {
    await sealedLog([3]);
    const now = inDays(70); // a month that has a partition
    await record(0);
    await record(0, { now: () => now });
    expect(await dropPartitions(sealDeps(), now, now)).toEqual([]); // one is not sealed yet
    await seal(now);
    const retention = inDays(30);
    expect((await dropPartitions(sealDeps(), now, retention)).length).toBeGreaterThan(0);
    expect(await verify()).toMatchObject({ findings: [], events: 1, dropped: 4 });
    expect(await dropPartitions(sealDeps(), now, retention)).toEqual([]);
    await tamper("delete from audit_events"); // retention does not drop these
    expect(await verify()).toMatchObject({ findings: [{ kind: "deleted" }], dropped: 4 });
    await tamper(
      `update audit_seals set dropped_below = '${"f".repeat(32)}' where dropped_below is not null`,
    );
    expect((await verify()).findings.map(({ kind }) => kind)).toContain("seal-broken");
  });

  test("events older than the partition of their month are kept, and dropped later", async () => {
    await sealedLog([1]);
    const late = inDays(400);
    await record(0, { now: () => late });
    await addPartitions({ em: store.fork() }, late); // except the month of the late event, whose row prevents it
    await seal(late);
    expect(await verify()).toMatchObject({ findings: [], events: 2 });
    const muchLater = inDays(470);
    expect(await dropPartitions(sealDeps(), muchLater, muchLater)).toContain(
      "audit_events_default",
    );
    expect(await verify()).toMatchObject({ findings: [], events: 0, dropped: 2 });
    await expect(sql("truncate audit_events_default")).rejects.toThrow("append-only");
    await record(1, { now: () => inDays(870) });
    expect(await verify()).toMatchObject({ findings: [], unsealed: 1 });
  });
});
