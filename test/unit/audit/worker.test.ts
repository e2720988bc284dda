import { describe, expect, test } from "vitest";
import { sealEvents } from "../../../services/audit/seal.ts";
import { insertAuditEvent } from "../../../services/store/audit-events.ts";
import { newId } from "../../../services/store/ids.ts";
import { ENGINES } from "../../support/database/engines.ts";
import { captureLog } from "../../support/log.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";
import { openAuditFixture } from "./fixture.ts";

/** The events of a long log. */
const MANY = 20_000;
/** As processes of the release before MACs would write it. */
const SEAL_WITHOUT_MAC = `insert into audit_seals (position, ids, links, dropped_below, head, sealed_at)
  select position + 1, '{}', '', null, head, sealed_at from audit_seals order by position desc limit 1`;

/** An event that somebody inserts with the rights of the service. */
const eventOf = (id: string, createdAt: Date) => ({
  ...{ id, event: "auth.login", outcome: "success" as const, userId: null, actorId: null },
  ...{ ip: "10.0.0.1", userAgent: "-", requestId: "forged", details: {}, createdAt },
});

describe.each(ENGINES)("Audit worker on %s", async (engine) => {
  const {
    store,
    sql,
    clock,
    tamper,
    record,
    recordMany,
    sealedLog,
    verify,
    seal,
    sealDeps,
    head,
    startWorker,
  } = await openAuditFixture(engine);

  test("the log rejects update, delete and truncate, in every partition, and seals without a MAC", async () => {
    await sealedLog();
    const inherited = "from pg_inherits where inhparent = 'audit_events'::regclass";
    const parts = await sql<{ name: string }>(
      `select inhrelid::regclass::text as name ${inherited}`,
    );
    const statements = [
      SEAL_WITHOUT_MAC,
      "update audit_events set ip = ''",
      "update audit_seals set head = ''",
    ];
    for (const table of ["audit_events", "audit_seals"])
      statements.push(`delete from ${table}`, `truncate ${table}`);
    for (const statement of [...statements, ...parts.map(({ name }) => `truncate ${name}`)])
      await expect(sql(statement)).rejects.toThrow("append-only");
    expect(await verify()).toMatchObject({ findings: [], events: 12 });
  });

  // PGlite has one connection, so that no transaction commits late
  test.skipIf(engine === "PGlite")(
    "events that commit late are sealed, and no writer is blocked",
    async () => {
      await sealedLog([2]);
      const held = Promise.withResolvers<void>();
      const em = store.fork();
      const late = em.transactional(async () => {
        await record(0, clock, em);
        await held.promise;
      });
      for (const i of times(3, (i) => i)) await record(i);
      await seal();
      expect(await verify()).toMatchObject({ findings: [], events: 5, unsealed: 0 });
      held.resolve();
      await late;
      expect(await verify()).toMatchObject({ findings: [], events: 5, unsealed: 1 });
      await seal();
      expect(await verify()).toMatchObject({ findings: [], events: 6, unsealed: 0 });
    },
  );

  test("concurrent workers build one chain", async () => {
    await sealedLog([1]);
    await Promise.all(
      times(40, async (i) => {
        await record(i);
        await seal();
      }),
    );
    for (let more = true; more; ) more = (await seal()) !== undefined;
    expect(await verify()).toMatchObject({ findings: [], events: 41, unsealed: 0 });
  });

  test("sealing reads only the events that it seals", async () => {
    await sealedLog([1]);
    await recordMany(MANY);
    await tamper("truncate audit_unsealed");
    await sql("analyze audit_events");
    await record(1);
    const em = store.fork();
    const read = await em.transactional(async () => {
      await sealEvents({ ...sealDeps(), em }, clock.now());
      const [row] = await em.execute<{ events: string }[]>(
        "select sum(seq_tup_read) as events from pg_stat_xact_user_tables where relname ~ '^audit_events_'",
      );
      return Number(row?.events);
    });
    expect(read).toBeLessThan(MANY / 10);
    expect((await head())?.position).toBe(2);
  });

  test("closing takes at most two batches, however many events wait", async () => {
    await sealedLog([1]);
    await recordMany(MANY);
    await startWorker().close();
    expect((await head())?.position).toBeLessThan(5);
    expect((await verify()).findings).toEqual([]);
  });

  test("events are sealed in the background, and the head is logged", async () => {
    const { lines, log } = captureLog();
    await sealedLog([2]);
    await record(3);
    const worker = startWorker(log);
    await until("the event to be sealed", async () => (await head())?.position === 2);
    await record(4);
    await worker.close();
    const last = await head();
    expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({
      msg: "audit chain head",
      position: 3,
      ...last,
    });
    expect(await verify(last)).toMatchObject({ findings: [], events: 4, unsealed: 0 });
  });

  test("a missing logged head is logged as an error", async () => {
    const { lines, log } = captureLog();
    await sealedLog([2, 2]);
    const worker = startWorker(log);
    await until("the head to be logged", () =>
      lines.some((line) => line.includes("audit chain head")),
    );
    await tamper(
      "delete from audit_seals; insert into audit_unsealed select id from audit_events limit 1",
    );
    clock.advance("61s");
    await until("the error", () =>
      lines.some((line) => /"level":50.*"position":2.*was rewritten/.test(line)),
    );
    await worker.close();
  });

  const dated = [
    { what: "last week", agoMs: 7 * 86_400_000, isLate: true },
    { what: "eleven minutes ago", agoMs: 11 * 60_000, isLate: true },
    { what: "nine minutes ago", agoMs: 9 * 60_000, isLate: false },
    { what: "last week by its id alone", agoMs: 7 * 86_400_000, column: "id", isLate: true },
    {
      what: "last week by its time alone",
      agoMs: 7 * 86_400_000,
      column: "created_at",
      isLate: true,
    },
  ];
  test.each(dated)(
    "an event inserted with a date of $what is reported: $isLate",
    async ({ agoMs, column, isLate }) => {
      const { lines, log } = captureLog();
      await sealedLog([2]);
      const [now, then] = [clock.now(), new Date(clock.now().getTime() - agoMs)];
      const id = newId(column === "created_at" ? now : then);
      await insertAuditEvent({ em: store.fork() }, eventOf(id, column === "id" ? now : then));
      const worker = startWorker(log);
      await until("the event to be sealed", async () => (await head())?.position === 2);
      await worker.close();
      const late = isLate ? [{ kind: "late", id, position: 2 }] : [];
      expect((await verify()).findings).toEqual(late);
      const warned = lines.map((line) => JSON.parse(line)).filter(({ level }) => level === 40);
      expect(warned.map(({ events, seal: at }) => ({ events, at }))).toEqual(
        isLate ? [{ events: [id], at: 2 }] : [],
      );
    },
  );

  test("closing succeeds even if the database fails", async () => {
    await tamper("alter table audit_unsealed rename to elsewhere");
    await expect(startWorker().close()).resolves.toBeUndefined();
    await tamper("alter table elsewhere rename to audit_unsealed");
  });
});
