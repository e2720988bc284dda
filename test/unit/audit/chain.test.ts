import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { headOf } from "../../../services/store/audit-seals.ts";
import { engines, openAuditFixture } from "../../support/audit-fixture.ts";

describe.each(engines)("Audit chain on %s", async (engine) => {
  const { store, tamper, record, sealedLog, verify, seal } = await openAuditFixture(engine);

  test("is complete, and grows from its head", async () => {
    await sealedLog();
    const { findings, events, head, unsealed } = await verify();
    expect({ findings, events, position: head.position, unsealed }).toEqual({
      findings: [],
      events: 12,
      position: 3,
      unsealed: 0,
    });
    await record(12);
    expect(await verify()).toMatchObject({ findings: [], events: 12, unsealed: 1 });
    expect(await seal()).toMatchObject({ position: 4, more: false });
    expect(await seal()).toBeUndefined();
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
  ])("finds a row whose %s was edited", async (edit) => {
    const ids = await sealedLog();
    await tamper(`update audit_events set ${edit} where id = '${ids[5]}'`);
    expect((await verify()).findings).toEqual([{ kind: "edited", id: ids[5], position: 2 }]);
  });

  test("finds a deleted row, and every row of a deleted tail", async () => {
    const ids = await sealedLog();
    await tamper(`delete from audit_events where id = '${ids[0]}' or id > '${ids[9]}'`);
    expect((await verify()).findings.map(({ kind, id }) => [kind, id])).toEqual([
      ["deleted", ids[0]],
      ["deleted", ids[10]],
      ["deleted", ids[11]],
    ]);
  });

  test("finds a deleted row that a forged seal calls dropped", async () => {
    const ids = await sealedLog();
    const head = await headOf({ em: store.fork() });
    await tamper(
      `delete from audit_events where id = '${ids[5]}';
      update audit_seals set dropped_below = '${"f".repeat(32)}' where position = 1`,
    );
    expect((await verify(head)).findings).toEqual([
      { kind: "seal-broken", position: 1 },
      { kind: "deleted", id: ids[5], position: 2 },
    ]);
  });

  test("finds two rows that were swapped, in the log or in the chain", async () => {
    const ids = await sealedLog();
    const [a, b] = [ids[4], ids[6]];
    await tamper(
      `update audit_events set id = '${uuidZero}' where id = '${a}';
      update audit_events set id = '${a}' where id = '${b}'; update audit_events set id = '${b}' where id = '${uuidZero}'`,
    );
    expect((await verify()).findings.map(({ kind, id }) => [kind, id])).toEqual([
      ["edited", a],
      ["edited", b],
    ]);
    const others = await sealedLog();
    await tamper("update audit_seals set ids[2] = ids[3], ids[3] = ids[2] where position = 2");
    expect((await verify()).findings).toEqual([
      { kind: "edited", id: others[5], position: 2 },
      { kind: "edited", id: others[4], position: 2 },
    ]);
  });

  test("finds a row that was inserted directly", async () => {
    await sealedLog();
    const id = randomUUID();
    await tamper(copyOf(id));
    expect((await verify()).findings).toEqual([{ kind: "inserted", id, position: undefined }]);
  });

  test("finds a row that was sealed twice, and the one that it displaced", async () => {
    const ids = await sealedLog();
    const inserted = randomUUID();
    await tamper(
      `${copyOf(inserted)};
      insert into audit_unsealed values ('${ids[5]}')`,
    );
    await seal();
    expect((await verify()).findings).toContainEqual({ kind: "sealed-twice", id: ids[5], position: 4 });
  });

  test.each(["2000000000", "9007199254740993", "9223372036854775807"])(
    "reports the gap before seal %s at once",
    async (place) => {
      await sealedLog();
      await tamper(
        `insert into audit_seals select ${place}, ids, links, null, head, sealed_at from audit_seals where position = 3`,
      );
      const { findings } = await verify();
      expect(findings).toContainEqual({ kind: "seal-missing", position: 4 });
    },
  );

  test.each(["0", "-9223372036854775808"])("finds seal %s before the first one, which hides a row", async (place) => {
    await sealedLog();
    const id = randomUUID();
    await tamper(
      `${copyOf(id)};
      insert into audit_seals select ${place}, '{${id}}', links, null, head, sealed_at from audit_seals where position = 1`,
    );
    expect((await verify()).findings).toEqual([{ kind: "seal-broken", position: Number(place) }]);
  });

  test("finds missing, changed and truncated seals", async () => {
    const ids = await sealedLog();
    const head = await headOf({ em: store.fork() });
    await tamper(`delete from audit_seals where position = 3; delete from audit_events where id >= '${ids[7]}'`);
    expect((await verify()).findings).toEqual([]); // consistent: only the logged head differs
    expect((await verify(head)).findings).toEqual([{ kind: "cut-off", position: 3 }]);
    await sealedLog();
    await tamper("delete from audit_seals where position = 2");
    expect((await verify()).findings).toContainEqual({ kind: "seal-missing", position: 2 });
    await sealedLog();
    await tamper("update audit_seals set head = '\\x00' where position = 3");
    expect((await verify()).findings).toEqual([{ kind: "seal-broken", position: 3 }]);
  });

  test("finds a rewritten chain by the logged head", async () => {
    const ids = await sealedLog();
    const head = await headOf({ em: store.fork() });
    await tamper(
      `update audit_events set ip = '10.9.9.9' where id = '${ids[1]}'; delete from audit_seals;
      insert into audit_unsealed select id from audit_events`,
    );
    await seal();
    expect((await verify()).findings).toEqual([]);
    expect((await verify(head)).findings).toEqual([{ kind: "cut-off", position: 3 }]);
  });
});

/** SQL that inserts a copy of an event. */
const copyOf = (id: string) =>
  `insert into audit_events select '${id}', event, outcome, user_id, actor_id, ip, user_agent, request_id, details, created_at
   from audit_events limit 1`;

const uuidZero = "00000000-0000-7000-8000-000000000000";
