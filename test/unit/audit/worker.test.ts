import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { sealEvents } from "../../../services/audit/seal.ts";
import { startAuditWorker } from "../../../services/audit/worker.ts";
import { createCipher } from "../../../services/crypto/cipher.ts";
import { headOf } from "../../../services/store/audit-seals.ts";
import { engines, openAuditFixture } from "../../support/audit-fixture.ts";
import { createClock } from "../../support/clock.ts";
import { captureLog, silent } from "../../support/log.ts";
import { openQuietStore } from "../../support/stores.ts";
import { times, until } from "../../support/until.ts";

/** The events of a long log. */
const MANY = 20_000;

describe.each(engines)("Audit worker on %s", async (engine) => {
  const { store, clock, tamper, record, recordMany, sealedLog, verify, seal, cipher } = await openAuditFixture(engine);

  test("the log refuses update, delete and truncate, in every partition", async () => {
    await sealedLog();
    const inherited = "from pg_inherits where inhparent = 'audit_events'::regclass";
    const parts = await store
      .fork()
      .execute<{ name: string }[]>(`select inhrelid::regclass::text as name ${inherited}`);
    const statements = ["audit_events", "audit_seals"].flatMap((table) => [
      `delete from ${table}`,
      `truncate ${table}`,
    ]);
    statements.push("update audit_events set ip = ''", "update audit_seals set head = ''");
    for (const statement of [...statements, ...parts.map(({ name }) => `truncate ${name}`)]) {
      await expect(store.fork().execute(statement)).rejects.toThrow("append-only");
    }
    expect(await verify()).toMatchObject({ findings: [], events: 12 });
  });

  // PGlite has one connection, so that no transaction commits late
  test.skipIf(engine === "PGlite")("seals events that commit late, and blocks no writer", async () => {
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
  });

  test("parallel workers make one chain", async () => {
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

  test("reads only the events that it seals", async () => {
    await sealedLog([1]);
    await recordMany(MANY);
    await tamper("truncate audit_unsealed");
    await store.fork().execute("analyze audit_events");
    await record(1);
    const em = store.fork();
    const read = await em.transactional(async () => {
      await sealEvents({ em, cipher }, clock.now());
      const [row] = await em.execute<{ events: string }[]>(
        "select sum(seq_tup_read) as events from pg_stat_xact_user_tables where relname ~ '^audit_events_'",
      );
      return Number(row?.events);
    });
    expect(read).toBeLessThan(MANY / 10);
    expect((await headOf({ em: store.fork() }))?.position).toBe(2);
  });

  test("closes within two batches, however many events wait", async () => {
    await sealedLog([1]);
    await recordMany(MANY);
    await startAuditWorker({ store, cipher, clock, config: { auditRetentionMs: 0 }, log: silent }).close();
    expect((await headOf({ em: store.fork() }))?.position).toBeLessThan(5);
    expect((await verify()).findings).toEqual([]);
  });

  test("seals in the background and logs the head", async () => {
    const { lines, log } = captureLog();
    await sealedLog([2]);
    await record(3);
    const worker = startAuditWorker({ store, cipher, clock, config: { auditRetentionMs: 0 }, log });
    await until("the event to be sealed", async () => (await headOf({ em: store.fork() }))?.position === 2);
    await record(4);
    await worker.close();
    const head = await headOf({ em: store.fork() });
    expect(head?.position).toBe(3);
    expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ msg: "audit chain head", ...head });
    expect(await verify(head)).toMatchObject({ findings: [], events: 4, unsealed: 0 });
  });

  test("logs an error if a logged head is missing", async () => {
    const { lines, log } = captureLog();
    await sealedLog([2, 2]);
    const worker = startAuditWorker({ store, cipher, clock, config: { auditRetentionMs: 0 }, log });
    await until("the head to be logged", () => lines.some((line) => line.includes("audit chain head")));
    await tamper("delete from audit_seals; insert into audit_unsealed select id from audit_events limit 1");
    clock.advance("61s");
    await until("the error", () => lines.some((line) => /"level":50.*"position":2.*was rewritten/.test(line)));
    await worker.close();
  });
});

test("Audit worker: closes even if the database fails", async () => {
  const store = await openQuietStore();
  await store.close();
  const deps = { store, cipher: createCipher(randomBytes(32)), clock: createClock(), log: silent };
  const worker = startAuditWorker({ ...deps, config: { auditRetentionMs: 0 } });
  await expect(worker.close()).resolves.toBeUndefined();
});
