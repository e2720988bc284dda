import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { engines, openAuditFixture } from "./fixture.ts";

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
const COPY = `insert into audit_events select '${NEW_ID}', event, outcome, user_id, actor_id, ip, user_agent, request_id,
  details, created_at from audit_events limit 1`;
const copySeal = (from: number, to: string, ids = "ids") =>
  `insert into audit_seals select ${to}, ${ids}, links, null, head, sealed_at from audit_seals where position = ${from}`;

/**
 * Changes of a log of three seals with 3, 4 and 5 events, and the findings: kind, seal, event. `$5`
 * is the id of the event with this index. The last value says how the log is verified.
 */
const TAMPERINGS: [what: string, sql: string, findings: string, how?: string][] = [
  ...EDITS.map((edit): [string, string, string] => [
    `a row whose ${edit} was edited`,
    `update audit_events set ${edit} where id = $5`,
    "edited 2 $5",
  ]),
  [
    "a deleted row, and every row of a deleted tail",
    "delete from audit_events where id = $0 or id > $9",
    "deleted 1 $0, deleted 3 $10, deleted 3 $11",
  ],
  [
    "a deleted row that a forged seal calls dropped",
    `delete from audit_events where id = $5; update audit_seals set dropped_below = '${"f".repeat(32)}' where position = 1`,
    "seal-broken 1, deleted 2 $5",
    "by the logged head",
  ],
  [
    "two rows that were swapped in the log",
    `update audit_events set id = '${SPARE_ID}' where id = $4; update audit_events set id = $4 where id = $6;
     update audit_events set id = $6 where id = '${SPARE_ID}'`,
    "edited 2 $4, edited 2 $6",
  ],
  [
    "two rows that were swapped in the chain",
    "update audit_seals set ids[2] = ids[3], ids[3] = ids[2] where position = 2",
    "edited 2 $5, edited 2 $4",
  ],
  ["a row that was inserted directly", COPY, `inserted ${NEW_ID}`],
  [
    "a row that was sealed twice in place of an inserted one",
    `${COPY}; insert into audit_unsealed values ($5)`,
    "sealed-twice 4 $5",
    "after a seal",
  ],
  ["the gap before a seal, at once", copySeal(3, "2000000000"), "seal-missing 4", "among others"],
  [
    "the gap before a far seal, at once",
    copySeal(3, "9007199254740993"),
    "seal-missing 4",
    "among others",
  ],
  [
    "the gap before the last seal, at once",
    copySeal(3, "9223372036854775807"),
    "seal-missing 4",
    "among others",
  ],
  [
    "a seal before the first one, which hides a row",
    `${COPY}; ${copySeal(1, "0", `'{${NEW_ID}}'`)}`,
    "seal-broken 0",
  ],
  [
    "the least seal, which hides a row",
    `${COPY}; ${copySeal(1, "-9223372036854775808", `'{${NEW_ID}}'`)}`,
    `seal-broken ${-(2 ** 63)}`,
  ],
  [
    "a cut-off end",
    "delete from audit_seals where position = 3; delete from audit_events where id >= $7",
    "cut-off 3",
    "by the logged head",
  ],
  [
    "a missing seal",
    "delete from audit_seals where position = 2",
    "seal-missing 2",
    "among others",
  ],
  ["a truncated seal", "update audit_seals set head = '\\x00' where position = 3", "seal-broken 3"],
  [
    "a rewritten chain",
    `update audit_events set ip = '10.9.9.9' where id = $1; delete from audit_seals;
     insert into audit_unsealed select id from audit_events`,
    "cut-off 3",
    "by the logged head, after a seal",
  ],
];

describe.each(engines)("Audit chain on %s", async (engine) => {
  const { tamper, record, sealedLog, verify, seal, head } = await openAuditFixture(engine);

  test("is complete, and grows from its head", async () => {
    await sealedLog();
    const before = await verify();
    expect(before).toMatchObject({ findings: [], events: 12, unsealed: 0, head: { position: 3 } });
    await record(12);
    expect(await verify()).toMatchObject({ findings: [], events: 12, unsealed: 1 });
    expect(await seal()).toMatchObject({ position: 4, more: false });
    expect(await seal()).toBeUndefined();
    expect(await verify(before.head)).toMatchObject({ findings: [], events: 13 });
  });

  test.each(TAMPERINGS)("finds %s", async (_what, sql, findings, how = "") => {
    const ids = await sealedLog();
    const logged = await head();
    await tamper(sql.replace(/\$(\d+)/g, (_, index) => `'${ids[index]}'`));
    if (how.includes("seal")) await seal();
    const found = (await verify(how.includes("head") ? logged : undefined)).findings.map(
      ({ kind, position, id }) => {
        const event = id && ids.includes(id) ? `$${ids.indexOf(id)}` : id;
        return [kind, position, event].filter((part) => part !== undefined).join(" ");
      },
    );
    if (how === "among others") expect(found).toContain(findings);
    else expect(found.join(", ")).toBe(findings);
  });
});
