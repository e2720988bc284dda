import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { headOf } from "../../../services/store/audit-seals.ts";
import { engines, openAuditFixture } from "../../support/audit-fixture.ts";

const EDITS = [
  "event = 'auth.logout'",
  "outcome = 'failure'",
  "user_id = gen_random_uuid()",
  "actor_id = null",
  "ip = '10.0.0.9'",
  "user_agent = ''",
  "request_id = 'x'",
  `details = '{"n": 99}'`,
  "created_at = created_at + interval '1 ms'",
];
const NEW_ID = randomUUID();
const SPARE_ID = "00000000-0000-7000-8000-000000000000";
/** Inserts a copy of an event. */
const COPY = `insert into audit_events select '${NEW_ID}', event, outcome, user_id, actor_id, ip, user_agent, request_id,
  details, created_at from audit_events limit 1`;
/** Inserts a copy of a seal. */
const copySeal = (position: number, place: string, ids: string) =>
  `insert into audit_seals select ${place}, ${ids}, links, null, head, sealed_at from audit_seals where position = ${position}`;
const finding = (kind: string, position: number, id?: string) => ({ kind, ...(id && { id }), position });
const among = (...findings: object[]) => expect.arrayContaining(findings);

type Tampering = [what: string, sql: (ids: string[]) => string, findings: (ids: string[]) => unknown, by?: string];
/** Changes of a log of three seals with 3, 4 and 5 events, and what a verification finds. */
const TAMPERINGS: [what: string, sql: (ids: string[]) => string, findings: (ids: string[]) => unknown, by?: string][] =
  [
    ...EDITS.map(
      (edit): Tampering => [
        `a row that was edited: ${edit}`,
        (ids) => `update audit_events set ${edit} where id = '${ids[5]}'`,
        (ids) => [finding("edited", 2, ids[5])],
      ],
    ),
    [
      "a deleted row, and every row of a deleted tail",
      (ids) => `delete from audit_events where id = '${ids[0]}' or id > '${ids[9]}'`,
      (ids) => [finding("deleted", 1, ids[0]), finding("deleted", 3, ids[10]), finding("deleted", 3, ids[11])],
    ],
    [
      "a deleted row that a forged seal calls dropped",
      (ids) => `delete from audit_events where id = '${ids[5]}';
      update audit_seals set dropped_below = '${"f".repeat(32)}' where position = 1`,
      (ids) => [finding("seal-broken", 1), finding("deleted", 2, ids[5])],
      "the logged head",
    ],
    [
      "two rows that were swapped in the log",
      (ids) => `update audit_events set id = '${SPARE_ID}' where id = '${ids[4]}';
      update audit_events set id = '${ids[4]}' where id = '${ids[6]}';
      update audit_events set id = '${ids[6]}' where id = '${SPARE_ID}'`,
      (ids) => [finding("edited", 2, ids[4]), finding("edited", 2, ids[6])],
    ],
    [
      "two rows that were swapped in the chain",
      () => "update audit_seals set ids[2] = ids[3], ids[3] = ids[2] where position = 2",
      (ids) => [finding("edited", 2, ids[5]), finding("edited", 2, ids[4])],
    ],
    ["a row that was inserted directly", () => COPY, () => [{ kind: "inserted", id: NEW_ID, position: undefined }]],
    [
      "a row that was sealed twice, and displaced another",
      (ids) => `${COPY}; insert into audit_unsealed values ('${ids[5]}')`,
      (ids) => among(finding("sealed-twice", 4, ids[5])),
      "the next seal",
    ],
    ...["2000000000", "9007199254740993", "9223372036854775807"].map(
      (place): Tampering => [
        `the gap before seal ${place}, at once`,
        () => copySeal(3, place, "ids"),
        () => among(finding("seal-missing", 4)),
      ],
    ),
    ...["0", "-9223372036854775808"].map(
      (place): Tampering => [
        `seal ${place} before the first one, which hides a row`,
        () => `${COPY}; ${copySeal(1, place, `'{${NEW_ID}}'`)}`,
        () => [finding("seal-broken", Number(place))],
      ],
    ),
    [
      "a cut-off end",
      (ids) => `delete from audit_seals where position = 3; delete from audit_events where id >= '${ids[7]}'`,
      () => [finding("cut-off", 3)],
      "the logged head",
    ],
    ["a missing seal", () => "delete from audit_seals where position = 2", () => among(finding("seal-missing", 2))],
    [
      "a truncated seal",
      () => "update audit_seals set head = '\\x00' where position = 3",
      () => [finding("seal-broken", 3)],
    ],
    [
      "a rewritten chain",
      (ids) => `update audit_events set ip = '10.9.9.9' where id = '${ids[1]}'; delete from audit_seals;
      insert into audit_unsealed select id from audit_events`,
      () => [finding("cut-off", 3)],
      "the next seal and the logged head",
    ],
  ];

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

  test.each(TAMPERINGS)("finds %s", async (_what, sql, findings, by = "") => {
    const ids = await sealedLog();
    const head = await headOf({ em: store.fork() });
    await tamper(sql(ids));
    if (by.includes("seal")) await seal();
    expect((await verify(by.includes("head") ? head : undefined)).findings).toEqual(findings(ids));
  });
});
