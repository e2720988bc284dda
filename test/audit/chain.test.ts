import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, describe, expect, test } from "vitest";
import { startAuditKeeper } from "../../services/audit/keeper.ts";
import { addPartitions, dropPartitions } from "../../services/audit/partitions.ts";
import { headOf, sealEvents } from "../../services/audit/seal.ts";
import { verifyAudit } from "../../services/audit/verify.ts";
import { recordAudit } from "../../services/audit.ts";
import { openStore, type Store } from "../../services/store/orm.ts";
import { createClock } from "../clock.ts";
import { createDatabase } from "../databases.ts";
import { times, until } from "../until.ts";

const engines = process.env.TEST_SERVERS ? ["PGlite", "PostgreSQL"] : ["PGlite"];
const log = pino({ level: "silent" });

describe.each(engines)("the audit chain on %s", async (engine) => {
  const store =
    engine === "PGlite"
      ? await openStore({ kind: "memory" }, log)
      : await openStore({ kind: "postgres", url: await createDatabase(`audit_${randomUUID().slice(0, 8)}`) }, log);
  await store.migrate();
  const clock = createClock();
  afterAll(() => store.close());

  /** A log of sealed events, in several seals; the one before is forgotten. @returns their ids in order */
  async function sealedLog(counts = [3, 4, 5]): Promise<string[]> {
    await tamper(store, "delete from audit_seals; delete from audit_events; delete from audit_unsealed");
    for (const count of counts) {
      for (const i of times(count, (i) => i)) await record(store, clock, i);
      await sealEvents(store.fork(), clock.now());
    }
    const rows = await store
      .fork()
      .execute<{ id: string }[]>("select unnest(ids) as id from audit_seals order by position");
    return rows.map(({ id }) => id);
  }
  const verify = (...known: Parameters<typeof verifyAudit> extends [unknown, ...infer Rest] ? Rest : never) =>
    verifyAudit(store.fork(), ...known);

  test("is whole, and grows from its head", async () => {
    await sealedLog();
    const { findings, events, head, unsealed } = await verify();
    expect({ findings, events, position: head.position, unsealed }).toEqual({
      findings: [],
      events: 12,
      position: 3,
      unsealed: 0,
    });
    await record(store, clock, 12);
    expect(await verify()).toMatchObject({ findings: [], events: 12, unsealed: 1 });
    expect(await sealEvents(store.fork(), clock.now())).toMatchObject({ position: 4, more: false });
    expect(await sealEvents(store.fork(), clock.now())).toBeUndefined();
    expect(await verify(head)).toMatchObject({ findings: [], events: 13 });
  });

  test.each([
    "event = 'auth.logout'",
    "outcome = 'failure'",
    "user_id = gen_random_uuid()",
    "actor_id = null",
    "ip = '10.0.0.9'",
    "user_agent = ''",
    "request_id = 'x'",
    `details = '{"n": 99}'`,
    "created_at = created_at + interval '1 ms'",
  ])("finds the row whose %s was edited", async (edit) => {
    const ids = await sealedLog();
    await tamper(store, `update audit_events set ${edit} where id = '${ids[5]}'`);
    expect((await verify()).findings).toEqual([{ kind: "edited", id: ids[5], position: 2 }]);
  });

  test("finds a deleted row, and every one of a deleted tail", async () => {
    const ids = await sealedLog();
    await tamper(store, `delete from audit_events where id = '${ids[0]}' or id > '${ids[9]}'`);
    expect((await verify()).findings.map(({ kind, id }) => [kind, id])).toEqual([
      ["deleted", ids[0]],
      ["deleted", ids[10]],
      ["deleted", ids[11]],
    ]);
  });

  test("finds two rows that changed places, in the log or in the chain", async () => {
    const ids = await sealedLog();
    const [a, b] = [ids[4], ids[6]];
    await tamper(
      store,
      `update audit_events set id = '${uuidZero}' where id = '${a}';
      update audit_events set id = '${a}' where id = '${b}'; update audit_events set id = '${b}' where id = '${uuidZero}'`,
    );
    expect((await verify()).findings.map(({ kind, id }) => [kind, id])).toEqual([
      ["edited", a],
      ["edited", b],
    ]);
    const others = await sealedLog();
    await tamper(store, "update audit_seals set ids[2] = ids[3], ids[3] = ids[2] where position = 2");
    expect((await verify()).findings).toEqual([
      { kind: "reordered", id: others[5], position: 2 },
      { kind: "reordered", id: others[4], position: 2 },
    ]);
  });

  test("finds a row that was put in past its recorder", async () => {
    await sealedLog();
    const id = randomUUID();
    await tamper(
      store,
      `insert into audit_events select '${id}', event, outcome, user_id, actor_id, ip, user_agent,
      request_id, details, created_at from audit_events limit 1`,
    );
    expect((await verify()).findings).toEqual([{ kind: "inserted", id, position: undefined }]);
  });

  test("finds seals that are gone, changed, or cut off together with their rows", async () => {
    const ids = await sealedLog();
    const head = await headOf(store.fork());
    await tamper(store, `delete from audit_seals where position = 3; delete from audit_events where id >= '${ids[7]}'`);
    expect((await verify()).findings).toEqual([]); // whole in itself: only the head in the log tells
    expect((await verify(head)).findings).toEqual([{ kind: "cut-off", position: 3 }]);
    await sealedLog();
    await tamper(store, "delete from audit_seals where position = 2");
    expect((await verify()).findings).toContainEqual({ kind: "seal-missing", position: 2 });
    await sealedLog();
    await tamper(store, "update audit_seals set head = '\\x00' where position = 3");
    expect((await verify()).findings).toEqual([{ kind: "seal-broken", position: 3 }]);
  });

  test("finds a chain that was rewritten from some row on, by the head that the log has shown", async () => {
    const ids = await sealedLog();
    const head = await headOf(store.fork());
    await tamper(
      store,
      `update audit_events set ip = '10.9.9.9' where id = '${ids[1]}'; delete from audit_seals;
      insert into audit_unsealed select id from audit_events`,
    );
    await sealEvents(store.fork(), clock.now());
    expect((await verify()).findings).toEqual([]);
    expect((await verify(head)).findings).toEqual([{ kind: "cut-off", position: 3 }]);
  });

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
      await record({ fork: () => em } as Store, clock, 0);
      await held;
    });
    for (const i of times(3, (i) => i)) await record(store, clock, i);
    await sealEvents(store.fork(), clock.now());
    expect(await verify()).toMatchObject({ findings: [], events: 5, unsealed: 0 });
    commit();
    await late;
    expect(await verify()).toMatchObject({ findings: [], events: 5, unsealed: 1 });
    await sealEvents(store.fork(), clock.now());
    expect(await verify()).toMatchObject({ findings: [], events: 6, unsealed: 0 });
  });

  test("is one chain, however many seal at once", async () => {
    await sealedLog([1]);
    await Promise.all(
      times(40, async (i) => {
        await record(store, clock, i);
        await sealEvents(store.fork(), clock.now());
      }),
    );
    for (let more = true; more; ) more = (await sealEvents(store.fork(), clock.now())) !== undefined;
    expect(await verify()).toMatchObject({ findings: [], events: 41, unsealed: 0 });
  });

  test("drops old months as a whole once they are sealed, and the chain tells so", async () => {
    await sealedLog([3]);
    const now = new Date(clock.now().getTime() + 70 * 86_400_000); // the months to come have their partitions
    await record(store, clock, 0);
    await record(store, { now: () => now }, 0);
    expect(await dropPartitions(store.fork(), now, now)).toEqual([]); // one is not sealed yet
    await sealEvents(store.fork(), now);
    const retention = new Date(now.getTime() - 40 * 86_400_000);
    expect((await dropPartitions(store.fork(), now, retention)).length).toBeGreaterThan(0);
    expect(await verify()).toMatchObject({ findings: [], events: 1, dropped: 4 });
    expect(await dropPartitions(store.fork(), now, retention)).toEqual([]);
    await tamper(store, `update audit_seals set dropped_below = '${"f".repeat(32)}' where dropped_below is not null`);
    expect((await verify()).findings.map(({ kind }) => kind)).toContain("seal-broken");
  });

  test("keeps what comes before its month has a partition, and drops it in its time", async () => {
    await sealedLog([1]);
    const late = new Date(clock.now().getTime() + 400 * 86_400_000);
    await record(store, { now: () => late }, 0);
    await addPartitions(store.fork(), late); // not the late one's month: its row is in the way
    await sealEvents(store.fork(), late);
    expect(await verify()).toMatchObject({ findings: [], events: 2 });
    const muchLater = new Date(late.getTime() + 70 * 86_400_000);
    expect(await dropPartitions(store.fork(), muchLater, muchLater)).toContain("audit_events_default");
    expect(await verify()).toMatchObject({ findings: [], events: 0, dropped: 2 });
    await expect(store.fork().execute("truncate audit_events_default")).rejects.toThrow("append-only");
    await record(store, { now: () => new Date(muchLater.getTime() + 400 * 86_400_000) }, 1);
    expect(await verify()).toMatchObject({ findings: [], unsealed: 1 });
  });

  test("is kept in the background, and its head told to the log", async () => {
    const lines: string[] = [];
    const told = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
    await sealedLog([2]);
    await record(store, clock, 3);
    const keeper = startAuditKeeper({ store, clock, config: { auditRetentionMs: 0 }, log: told });
    await until("the event to be sealed", async () => (await headOf(store.fork()))?.position === 2);
    await record(store, clock, 4);
    await keeper.close();
    const head = await headOf(store.fork());
    expect(head?.position).toBe(3);
    expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ msg: "audit chain head", ...head });
    expect(await verify(head)).toMatchObject({ findings: [], events: 4, unsealed: 0 });
  });
});

const uuidZero = "00000000-0000-7000-8000-000000000000";

async function record(store: Pick<Store, "fork">, clock: { now(): Date }, n: number): Promise<void> {
  const client = { address: "10.0.0.1", agent: "test" };
  const call = { em: store.fork(), clock, client, requestId: `request-${n}`, caller: undefined };
  await recordAudit(call, "auth.login", { userId: randomUUID(), details: { n } });
}

/** What only the owner of the tables can do, and only on purpose. */
async function tamper(store: Store, sql: string): Promise<void> {
  const em = store.fork();
  await em.transactional(async () => {
    await em.execute("set local session_replication_role = replica"); // no triggers
    for (const statement of sql.split(";")) await em.execute(statement);
  });
}
