import { setTimeout as wait } from "node:timers/promises";
import { pino } from "pino";
import { describe, expect, test } from "vitest";
import { startAuditKeeper } from "../../services/audit/keeper.ts";
import { addPartitions, dropPartitions } from "../../services/audit/partitions.ts";
import { headOf, sealEvents } from "../../services/audit/seal.ts";
import type { Store } from "../../services/store/store.ts";
import { createClock } from "../clock.ts";
import { times, until } from "../until.ts";
import { engines, openLedger } from "./ledger.ts";

/** Events of a log that is long for a test. */
const MANY = 20_000;

describe.each(engines)("the keeping of the audit log on %s", async (engine) => {
  const { store, clock, tamper, record, recordMany, sealedLog, verify } = await openLedger(engine);

  test("refuses update, delete and truncate, of every partition", async () => {
    await sealedLog();
    const parts = await store
      .fork()
      .execute<{ name: string }[]>(
        "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_events'::regclass",
      );
    for (const table of ["audit_events", "audit_seals", ...parts.map(({ name }) => name)]) {
      await expect(store.fork().execute(`truncate ${table}`)).rejects.toThrow("append-only");
    }
    for (const table of ["audit_events", "audit_seals"]) {
      await expect(store.fork().execute(`delete from ${table}`)).rejects.toThrow("append-only");
    }
    await expect(store.fork().execute("update audit_events set ip = ''")).rejects.toThrow("append-only");
    await expect(store.fork().execute("update audit_seals set head = ''")).rejects.toThrow("append-only");
    expect(await verify()).toMatchObject({ findings: [], events: 12 });
  });

  test("seals what commits late, without keeping anybody waiting", async () => {
    if (engine === "PGlite") return; // one connection: nothing commits late
    await sealedLog([2]);
    let commit = () => {};
    const held = new Promise<void>((resolve) => {
      commit = resolve;
    });
    const em = store.fork();
    const late = em.transactional(async () => {
      await record(0, clock, em);
      await held;
    });
    for (const i of times(3, (i) => i)) await record(i);
    await sealEvents(store.fork(), clock.now());
    expect(await verify()).toMatchObject({ findings: [], events: 5, unsealed: 0 });
    commit();
    await late;
    expect(await verify()).toMatchObject({ findings: [], events: 5, unsealed: 1 });
    await sealEvents(store.fork(), clock.now());
    expect(await verify()).toMatchObject({ findings: [], events: 6, unsealed: 0 });
  });

  test("keeps no writer waiting for a month's partition while somebody reads for long", async () => {
    if (engine === "PGlite") return; // one connection: nobody waits for another
    await sealedLog([1]);
    const later = new Date(clock.now().getTime() + 200 * 86_400_000);
    let finish = () => {};
    const read = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const em = store.fork();
    const reader = em.transactional(async () => {
      await em.execute("select 1 from audit_events limit 1");
      await read;
    });
    await until("the reader", async () => (await locks("granted")) > 0);
    const refused = addPartitions(store.fork(), later).catch((error: Error) => error.message);
    await until("the partition to wait for the reader", async () => (await locks("not granted")) > 0);
    const answered = await Promise.race([record(1).then(() => true), wait(6_000, false)]);
    finish();
    await reader;
    expect(answered).toBe(true);
    expect(await refused).toContain("lock timeout");
    await addPartitions(store.fork(), later);
    await sealEvents(store.fork(), clock.now());
    expect(await verify()).toMatchObject({ findings: [], events: 2, unsealed: 0 });
  });

  async function locks(which: "granted" | "not granted"): Promise<number> {
    const [row] = await store.fork().execute<{ count: number }[]>(
      `select count(*)::int from pg_locks l join pg_database d on d.oid = l.database
         where d.datname = current_database() and relation = 'audit_events'::regclass and ${which}`,
    );
    return row?.count ?? 0;
  }

  test("is one chain, however many seal at once", async () => {
    await sealedLog([1]);
    await Promise.all(
      times(40, async (i) => {
        await record(i);
        await sealEvents(store.fork(), clock.now());
      }),
    );
    for (let more = true; more; ) more = (await sealEvents(store.fork(), clock.now())) !== undefined;
    expect(await verify()).toMatchObject({ findings: [], events: 41, unsealed: 0 });
  });

  test.each([
    ["drops old months in the background", 40 * 86_400_000, 1],
    ["keeps every month where retention is off", 0, 2],
  ])("%s", async (_, auditRetentionMs, kept) => {
    await sealedLog([1]);
    await record(0, { now: () => new Date(clock.now().getTime() - 80 * 86_400_000) });
    await sealEvents(store.fork(), clock.now());
    await startAuditKeeper({ store, clock, config: { auditRetentionMs }, log: pino({ level: "silent" }) }).close();
    expect(await verify()).toMatchObject({ findings: [], events: kept, dropped: 2 - kept });
  });

  test("drops old months as a whole once they are sealed, and the chain tells so", async () => {
    await sealedLog([3]);
    const now = new Date(clock.now().getTime() + 70 * 86_400_000); // the months to come have their partitions
    await record(0);
    await record(0, { now: () => now });
    expect(await dropPartitions(store.fork(), now, now)).toEqual([]); // one is not sealed yet
    await sealEvents(store.fork(), now);
    const retention = new Date(now.getTime() - 40 * 86_400_000);
    expect((await dropPartitions(store.fork(), now, retention)).length).toBeGreaterThan(0);
    expect(await verify()).toMatchObject({ findings: [], events: 1, dropped: 4 });
    expect(await dropPartitions(store.fork(), now, retention)).toEqual([]);
    await tamper("delete from audit_events"); // what is left was not retention's to drop
    expect(await verify()).toMatchObject({ findings: [{ kind: "deleted" }], dropped: 4 });
    await tamper(`update audit_seals set dropped_below = '${"f".repeat(32)}' where dropped_below is not null`);
    expect((await verify()).findings.map(({ kind }) => kind)).toContain("seal-broken");
  });

  test("keeps what comes before its month has a partition, and drops it in its time", async () => {
    await sealedLog([1]);
    const late = new Date(clock.now().getTime() + 400 * 86_400_000);
    await record(0, { now: () => late });
    await addPartitions(store.fork(), late); // not the late one's month: its row is in the way
    await sealEvents(store.fork(), late);
    expect(await verify()).toMatchObject({ findings: [], events: 2 });
    const muchLater = new Date(late.getTime() + 70 * 86_400_000);
    expect(await dropPartitions(store.fork(), muchLater, muchLater)).toContain("audit_events_default");
    expect(await verify()).toMatchObject({ findings: [], events: 0, dropped: 2 });
    await expect(store.fork().execute("truncate audit_events_default")).rejects.toThrow("append-only");
    await record(1, { now: () => new Date(muchLater.getTime() + 400 * 86_400_000) });
    expect(await verify()).toMatchObject({ findings: [], unsealed: 1 });
  });

  test("reads the events that it seals, however many others there are", async () => {
    await sealedLog([1]);
    await recordMany(MANY);
    await tamper("truncate audit_unsealed");
    await store.fork().execute("analyze audit_events");
    await record(1);
    const em = store.fork();
    const read = await em.transactional(async () => {
      await sealEvents(em, clock.now());
      const [row] = await em.execute<{ events: string }[]>(
        "select sum(seq_tup_read) as events from pg_stat_xact_user_tables where relname ~ '^audit_events_'",
      );
      return Number(row?.events);
    });
    expect(read).toBeLessThan(MANY / 10);
    expect((await headOf(store.fork()))?.position).toBe(2);
  });

  test("closes within a batch or two, however much waits for its seal", async () => {
    await sealedLog([1]);
    await recordMany(MANY);
    const log = pino({ level: "silent" });
    await startAuditKeeper({ store, clock, config: { auditRetentionMs: 0 }, log }).close();
    expect((await headOf(store.fork()))?.position).toBeLessThan(5);
    expect((await verify()).findings).toEqual([]);
  });

  test("is kept in the background, and its head told to the log", async () => {
    const lines: string[] = [];
    const told = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
    await sealedLog([2]);
    await record(3);
    const keeper = startAuditKeeper({ store, clock, config: { auditRetentionMs: 0 }, log: told });
    await until("the event to be sealed", async () => (await headOf(store.fork()))?.position === 2);
    await record(4);
    await keeper.close();
    const head = await headOf(store.fork());
    expect(head?.position).toBe(3);
    expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ msg: "audit chain head", ...head });
    expect(await verify(head)).toMatchObject({ findings: [], events: 4, unsealed: 0 });
  });
});

test("the keeper closes, though the database goes between its last seal and the telling of its head", async () => {
  const em = {
    async execute(sql: string) {
      if (sql.includes("audit_seals")) throw new Error("Connection terminated");
      return [];
    },
    transactional: async () => {},
  };
  const store = { fork: () => em } as unknown as Store;
  const config = { auditRetentionMs: 0 };
  const keeper = startAuditKeeper({ store, clock: createClock(), config, log: pino({ level: "silent" }) });
  await expect(keeper.close()).resolves.toBeUndefined();
});
