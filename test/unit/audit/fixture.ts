import { randomBytes, randomUUID } from "node:crypto";
import { afterAll } from "vitest";
import { recordAudit } from "../../../services/audit/record.ts";
import { sealEvents } from "../../../services/audit/seal.ts";
import { verifyAudit } from "../../../services/audit/verify.ts";
import { startAuditWorker } from "../../../services/audit/worker.ts";
import { type AppContext, systemCall } from "../../../services/call.ts";
import { createCipher } from "../../../services/crypto/cipher.ts";
import { type Head, headOf } from "../../../services/store/audit-seals.ts";
import { lowestId } from "../../../services/store/ids.ts";
import { createClock } from "../../support/clock.ts";
import { openMigratedStore } from "../../support/database/engines.ts";
import { silent } from "../../support/log.ts";
import { times } from "../../support/tally.ts";

/** A time after every seal of a test. */
const LATER = new Date("2100-01-01");

/** Opens an audit log for one suite, and closes it after the suite. */
export async function openAuditFixture(engine: string) {
  const store = await openMigratedStore(engine);
  const clock = createClock();
  const cipher = createCipher(randomBytes(32));
  const sql = <T>(text: string, values?: unknown[]) => store.fork().execute<T[]>(text, values);
  const sealDeps = () => ({ em: store.fork(), cipher });
  const seal = (now = clock.now()) => sealEvents(sealDeps(), now);
  const inDays = (days: number) => new Date(clock.now().getTime() + days * 86_400_000);
  afterAll(() => store.close());

  /** Changes rows without triggers, as only the owner of the tables can. */
  async function tamper(sql: string): Promise<void> {
    const em = store.fork();
    await em.transactional(async () => {
      await em.execute("set local session_replication_role = replica");
      for (const statement of sql.split(";")) await em.execute(statement);
    });
  }

  /**
   * Records an event.
   * @param em the transaction to join
   */
  async function record(n: number, at: { now(): Date } = clock, em = store.fork()): Promise<void> {
    const client = { address: "10.0.0.1", agent: "test" };
    const call = { ...systemCall({ clock: at } as AppContext, store, `request-${n}`), em, client };
    await recordAudit(call, "auth.login", { userId: randomUUID(), details: { n } });
  }

  /** Adds unsealed events by one statement. */
  async function recordMany(count: number): Promise<void> {
    await sql(
      `with recorded as (
         insert into audit_events
         select overlay(? placing lpad(to_hex(n), 12, '0') from 25)::uuid, 'auth.login', 'success',
           null, null, '10.0.0.1', 'test', 'many', '{}', ? from generate_series(1, ?) as n returning id)
       insert into audit_unsealed select id from recorded`,
      [lowestId(clock.now()), clock.now(), count],
    );
  }

  /**
   * Replaces the log by sealed events.
   * @param counts the events of each seal
   * @returns their ids in order
   */
  async function sealedLog(counts = [3, 4, 5]): Promise<string[]> {
    await tamper("delete from audit_seals; delete from audit_events; delete from audit_unsealed");
    for (const count of counts) {
      for (const i of times(count, (i) => i)) await record(i);
      await seal();
    }
    const rows = await sql<{ id: string }>(
      "select unnest(ids) as id from audit_seals order by position",
    );
    return rows.map(({ id }) => id);
  }

  /** @param retentionMs by default the shortest: a month may be dropped as soon as it is over */
  const verify = (known?: Head, { retentionMs = 1, now = LATER, em = store.fork() } = {}) =>
    verifyAudit({ em, cipher, now, retentionMs }, known);

  /** @param auditRetentionMs by default retention is off */
  const startWorker = (log = silent, auditRetentionMs = 0) =>
    startAuditWorker({
      ...{ store, cipher, clock, agreedTime, log },
      ...{ config: { auditRetentionMs }, countEvent: () => {}, onSealed: () => {} },
    });
  const agreedTime = {
    read: async () => clock.now(),
    compare: async () => ({ earlier: clock.now(), agrees: true }),
  };
  const head = () => headOf(sealDeps());
  const time = { clock, inDays };
  return {
    store,
    sql,
    ...time,
    tamper,
    record,
    recordMany,
    seal,
    sealDeps,
    head,
    sealedLog,
    verify,
    startWorker,
  };
}
