import { randomBytes, randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll } from "vitest";
import { recordAudit } from "../../services/audit/record.ts";
import { sealEvents } from "../../services/audit/seal.ts";
import { verifyAudit } from "../../services/audit/verify.ts";
import { createCipher } from "../../services/crypto/cipher.ts";
import type { Head } from "../../services/store/audit-seals.ts";
import { openStore } from "../../services/store/open-store.ts";
import { createClock } from "./clock.ts";
import { createDatabase } from "./databases.ts";
import { times } from "./until.ts";

/** The databases that keep a log. */
export const engines = process.env.TEST_SERVERS ? ["PGlite", "PostgreSQL"] : ["PGlite"];
const log = pino({ level: "silent" });

/** Late enough for any seal of a test. */
const LATER = new Date("2100-01-01");

/** An audit log of its own for a suite, which is closed after it. */
export async function openAuditFixture(engine: string) {
  const store =
    engine === "PGlite"
      ? await openStore({ kind: "memory" }, log)
      : await openStore({ kind: "postgres", url: await createDatabase(`audit_${randomUUID().slice(0, 8)}`) }, log);
  await store.migrate();
  const clock = createClock();
  const cipher = createCipher(randomBytes(32));
  const sealDeps = () => ({ em: store.fork(), cipher });
  const seal = (now = clock.now()) => sealEvents(sealDeps(), now);
  afterAll(() => store.close());

  /** Does what only the owner of the tables can do, and only on purpose. */
  async function tamper(sql: string): Promise<void> {
    const em = store.fork();
    await em.transactional(async () => {
      await em.execute("set local session_replication_role = replica"); // no triggers
      for (const statement of sql.split(";")) await em.execute(statement);
    });
  }

  /** Records an event. @param em joins its transaction */
  async function record(n: number, at: { now(): Date } = clock, em = store.fork()): Promise<void> {
    const client = { address: "10.0.0.1", agent: "test" };
    const call = { em, clock: at, client, requestId: `request-${n}`, caller: undefined };
    await recordAudit(call, "auth.login", { userId: randomUUID(), details: { n } });
  }

  /** Adds so many events by one statement, which wait for their seals. */
  async function recordMany(count: number): Promise<void> {
    await store.fork().execute(
      `with recorded as (
         insert into audit_events
         select overlay(audit_id_at(current_date)::text placing lpad(to_hex(n), 12, '0') from 25)::uuid, 'auth.login', 'success',
           null, null, '10.0.0.1', 'test', 'many', '{}', now() from generate_series(1, ?) as n returning id)
       insert into audit_unsealed select id from recorded`,
      [count],
    );
  }

  /** A log of sealed events, in several seals; the one before is forgotten. @returns their ids in order */
  async function sealedLog(counts = [3, 4, 5]): Promise<string[]> {
    await tamper("delete from audit_seals; delete from audit_events; delete from audit_unsealed");
    for (const count of counts) {
      for (const i of times(count, (i) => i)) await record(i);
      await seal();
    }
    const rows = await store
      .fork()
      .execute<{ id: string }[]>("select unnest(ids) as id from audit_seals order by position");
    return rows.map(({ id }) => id);
  }

  /** @param retentionMs the shortest: months may be dropped as soon as they are over */
  const verify = (known?: Head, { retentionMs = 1, keys = cipher, now = LATER } = {}) =>
    verifyAudit({ em: store.fork(), cipher: keys, now, retentionMs }, known);
  return { store, cipher, clock, tamper, record, recordMany, seal, sealDeps, sealedLog, verify };
}
