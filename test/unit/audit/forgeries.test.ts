import { describe, expect, test } from "vitest";
import { dropLinkOf, GENESIS, linkOf } from "../../../services/audit/seal.ts";
import { addPartitions, dropPartitions } from "../../../services/audit/worker.ts";
import { findSealedEvents } from "../../../services/store/audit-seals.ts";
import { readSeals } from "../../../services/store/audit-verification.ts";
import { ENGINES } from "../../support/database/engines.ts";
import { openAuditFixture } from "./fixture.ts";

const DAY_MS = 86_400_000;
/** In days. */
const RETENTION = 400;

/** Forgeries by an owner of the tables without the secret key. */
describe.each(ENGINES)("Audit chain on %s, without the key", async (engine) => {
  const { sql, clock, inDays, tamper, record, seal, sealDeps, head, sealedLog, verify } =
    await openAuditFixture(engine);
  const kinds = async (...how: Parameters<typeof verify>) => [
    ...new Set((await verify(...how)).findings.map(({ kind }) => kind)),
  ];
  const beginningOf = async (day: Date): Promise<string> => {
    const month = day.toISOString().slice(0, 8);
    const [row] = await sql<{ id: string }>(`select audit_id_at('${month}01') as id`);
    return row?.id ?? "";
  };

  /** Appends a seal of the release before MACs that declares all events below an id as dropped. */
  async function appendDrop(below: string, sealedAt: Date): Promise<void> {
    const { position = 0, hash = "" } = (await head()) ?? {};
    const link = dropLinkOf(hash, below);
    await tamper(
      `insert into audit_seals (position, ids, links, dropped_below, head, sealed_at)
       values (${position + 1}, '{}', '\\x${link}', '${below}', '\\x${link}', '${sealedAt.toISOString()}')`,
    );
  }

  /**
   * Recomputes every link from the present events.
   * @param mac SQL for the new MACs
   */
  async function rewriteChain(mac = "mac"): Promise<void> {
    let last = GENESIS;
    for (const { position, ids } of await readSeals(sealDeps(), null, 100)) {
      const events = await findSealedEvents(sealDeps(), ids);
      const kept = ids.filter((id) => events.has(id));
      const links = kept.map((id) => (last = linkOf(last, id, events.get(id)?.digest ?? "")));
      await tamper(
        `update audit_seals set ids = '{${kept.join(",")}}', links = '\\x${links.join("")}', head = '\\x${last}',
         mac = ${mac} where position = ${position}`,
      );
    }
  }

  test.each([
    {
      what: "the next id",
      below: async () => "ffffffff-ffff-7fff-bfff-ffffffffffff",
      sealedInDays: 0,
    },
    { what: "the month to come", below: () => beginningOf(inDays(31)), sealedInDays: 0 },
    {
      what: "the month to come, in the future",
      below: () => beginningOf(inDays(31)),
      sealedInDays: 500,
    },
    { what: "an old month", below: () => beginningOf(new Date(0)), sealedInDays: 0 },
  ])(
    "verification finds deleted events under a forged retention seal of $what",
    async ({ below, sealedInDays }) => {
      const ids = await sealedLog();
      await tamper(`delete from audit_events where id in ('${ids.slice(2, 9).join("','")}')`);
      await appendDrop(await below(), inDays(sealedInDays));
      const { hash = "" } = (await head()) ?? {};
      const early = { retentionMs: RETENTION * DAY_MS, now: clock.now() };
      const { findings } = await verify({ position: 4, hash }, early);
      expect(findings.filter(({ kind }) => kind === "deleted").map(({ id }) => id)).toEqual(
        ids.slice(2, 9),
      );
      expect(findings).toContainEqual({ kind: "seal-forged", position: 4 });
      await record(0);
      await seal(); // a later seal of the service does not hide it
      expect(await kinds(undefined, early)).toEqual(["deleted", "seal-forged"]);
    },
  );

  test.each(["mac", "null", "'\\x00'"])(
    "verification finds a chain whose links were recomputed, with %s as MAC",
    async (mac) => {
      const ids = await sealedLog();
      await rewriteChain(); // with the same links
      expect(await kinds()).toEqual([]);
      await tamper(`update audit_events set ip = '10.9.9.9' where id = '${ids[5]}'`);
      await rewriteChain(mac);
      expect(await kinds()).toEqual(["seal-forged"]);
      await sealedLog();
      await tamper(
        "delete from audit_events where id = (select max(id::text)::uuid from audit_events)",
      );
      await rewriteChain(mac);
      expect(await kinds()).toEqual(["seal-forged"]);
    },
  );

  test("verification finds swapped heads, MACs and whole seals", async () => {
    const swap = (columns: string[]) =>
      tamper(
        `update audit_seals a set ${columns.map((column) => `${column} = b.${column}`).join(", ")}
         from audit_seals b where a.position + b.position = 5 and a.position in (2, 3)`,
      );
    for (const columns of [
      ["head"],
      ["mac"],
      ["head", "mac"],
      ["ids", "links", "head", "mac", "sealed_at"],
    ]) {
      await sealedLog();
      expect(await kinds()).toEqual([]);
      await swap(columns);
      expect(await kinds()).not.toEqual([]);
    }
    await sealedLog();
    await tamper(
      "update audit_seals set sealed_at = sealed_at + interval '1 year' where position = 2",
    );
    expect(await kinds()).toEqual(["seal-forged"]);
  });

  test("verification finds a month that was restored after retention had dropped it", async () => {
    await sealedLog([3]);
    const later = inDays(RETENTION + 40);
    await addPartitions(sealDeps(), later);
    await tamper("create table restored as select * from audit_events");
    expect((await dropPartitions(sealDeps(), later, inDays(40))).length).toBeGreaterThan(0);
    const due = { retentionMs: RETENTION * DAY_MS };
    expect(await verify(undefined, due)).toMatchObject({ findings: [], events: 0, dropped: 3 });
    expect(await kinds(undefined, { retentionMs: 0 })).toEqual(["deleted", "dropped-early"]);
    expect(await kinds(undefined, { retentionMs: (RETENTION + 80) * DAY_MS })).toEqual([
      "deleted",
      "dropped-early",
    ]);
    await tamper("insert into audit_events select * from restored");
    expect(await kinds(undefined, due)).toEqual(["restored"]);
    await tamper("update audit_events set ip = '10.9.9.9'");
    expect(await kinds(undefined, due)).toEqual(["edited", "restored"]);
    await tamper("drop table restored");
  });

  test("verification accepts a chain without MACs once the service has sealed it, but no later seal without a MAC", async () => {
    await sealedLog();
    const old = (await head()) ?? { position: 0, hash: "" };
    await tamper("update audit_seals set mac = null");
    expect(await verify()).toMatchObject({
      findings: [{ kind: "seal-forged", position: 3 }],
      authenticFrom: undefined,
    });
    expect(await seal()).toMatchObject({ position: 4, hash: old.hash, more: false });
    expect(await seal()).toBeUndefined();
    await record(0);
    await seal();
    expect(await verify(old)).toMatchObject({ findings: [], events: 13, authenticFrom: 4 });
    await tamper("update audit_seals set mac = null where position = 5");
    expect((await verify()).findings).toEqual([{ kind: "seal-forged", position: 5 }]);
    await sealedLog();
    await tamper("update audit_seals set mac = null");
    await seal();
    await tamper(`update audit_events set ip = '10.9.9.9' where ip <> '10.9.9.9'`);
    await rewriteChain("case when position < 4 then null else mac end");
    expect(await kinds()).toEqual(["seal-forged"]);
  });
});
