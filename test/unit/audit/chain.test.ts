import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { ENGINES } from "../../support/database/engines.ts";
import { openAuditFixture } from "./fixture.ts";

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

/** A change of a log of three seals with 3, 4 and 5 events. */
type Tampering = {
  what: string;
  /** `$5` is the id of the event with this index. */
  sql: string;
  /** Kind, seal and event of each finding. */
  findings: string;
  /** How the log is verified; by default, as it is, and there are no other findings. */
  verified?:
    | "by the logged head"
    | "after a seal"
    | "by the logged head, after a seal"
    | "among others";
};
const TAMPERINGS: Tampering[] = [
  ...EDITS.map((edit) => ({
    what: `a row whose ${edit} was edited`,
    sql: `update audit_events set ${edit} where id = $5`,
    findings: "edited 2 $5",
  })),
  {
    what: "a deleted row, and every row of a deleted tail",
    sql: "delete from audit_events where id = $0 or id > $9",
    findings: "deleted 1 $0, deleted 3 $10, deleted 3 $11",
  },
  {
    what: "a deleted row that a forged seal calls dropped",
    sql: `delete from audit_events where id = $5; update audit_seals set dropped_below = '${"f".repeat(32)}' where position = 1`,
    findings: "seal-broken 1, deleted 2 $5",
    verified: "by the logged head",
  },
  {
    what: "two rows that were swapped in the log",
    sql: `update audit_events set id = '${SPARE_ID}' where id = $4; update audit_events set id = $4 where id = $6;
     update audit_events set id = $6 where id = '${SPARE_ID}'`,
    findings: "edited 2 $4, edited 2 $6",
  },
  {
    what: "two rows that were swapped in the chain",
    sql: "update audit_seals set ids[2] = ids[3], ids[3] = ids[2] where position = 2",
    findings: "edited 2 $5, edited 2 $4",
  },
  { what: "a row that was inserted directly", sql: COPY, findings: `inserted ${NEW_ID}` },
  {
    what: "a row that was sealed twice in place of an inserted one",
    sql: `${COPY}; insert into audit_unsealed values ($5)`,
    findings: "sealed-twice 4 $5",
    verified: "after a seal",
  },
  {
    what: "the gap before a seal, at once",
    sql: copySeal(3, "2000000000"),
    findings: "seal-missing 4",
    verified: "among others",
  },
  {
    what: "the gap before a far seal, at once",
    sql: copySeal(3, "9007199254740993"),
    findings: "seal-missing 4",
    verified: "among others",
  },
  {
    what: "the gap before the last seal, at once",
    sql: copySeal(3, "9223372036854775807"),
    findings: "seal-missing 4",
    verified: "among others",
  },
  {
    what: "a seal before the first one, which hides a row",
    sql: `${COPY}; ${copySeal(1, "0", `'{${NEW_ID}}'`)}`,
    findings: "seal-broken 0",
  },
  {
    what: "the least seal, which hides a row",
    sql: `${COPY}; ${copySeal(1, "-9223372036854775808", `'{${NEW_ID}}'`)}`,
    findings: `seal-broken ${-(2 ** 63)}`,
  },
  {
    what: "a cut-off end",
    sql: "delete from audit_seals where position = 3; delete from audit_events where id >= $7",
    findings: "cut-off 3",
    verified: "by the logged head",
  },
  {
    what: "a missing seal",
    sql: "delete from audit_seals where position = 2",
    findings: "seal-missing 2",
    verified: "among others",
  },
  {
    what: "a truncated seal",
    sql: "update audit_seals set head = '\\x00' where position = 3",
    findings: "seal-broken 3",
  },
  {
    what: "a rewritten chain",
    sql: `update audit_events set ip = '10.9.9.9' where id = $1; delete from audit_seals;
     insert into audit_unsealed select id from audit_events`,
    findings: "cut-off 3",
    verified: "by the logged head, after a seal",
  },
];

describe.each(ENGINES)("Audit chain on %s", async (engine) => {
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

  test.each(TAMPERINGS)("verification finds $what", async ({ sql, findings, verified = "" }) => {
    const ids = await sealedLog();
    const logged = await head();
    await tamper(sql.replace(/\$(\d+)/g, (_, index) => `'${ids[index]}'`));
    if (verified.includes("seal")) await seal();
    const found = (await verify(verified.includes("head") ? logged : undefined)).findings.map(
      ({ kind, position, id }) => {
        const event = id && ids.includes(id) ? `$${ids.indexOf(id)}` : id;
        return [kind, position, event].filter((part) => part !== undefined).join(" ");
      },
    );
    if (verified === "among others") expect(found).toContain(findings);
    else expect(found.join(", ")).toBe(findings);
  });
});
