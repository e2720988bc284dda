import { resolve } from "node:path";
import { expect, test } from "vitest";
import { createDatabase, runSql } from "../support/database/databases.ts";
import { createHttpClient } from "../support/http/client.ts";
import { runScript, sharedVariables, startProcess } from "../support/processes/processes.ts";
import { describeIf, forTest } from "../support/suites.ts";
import { until } from "../support/until.ts";

const DAY_MS = 86_400_000;
/** What a deleted row of each table is recognised by. */
const COUNTS = {
  users: "select name as row from users",
  sessions: "select device as row from sessions",
  emails:
    "select template || case status when 'failed' then ' failed' else '' end as row from emails",
  tokens: "select kind as row from one_time_tokens",
  attempts: "select subject as row from attempts where consecutive = 0",
  usage: "select model as row from ai_usage",
  keys: "select kid as row from signing_keys",
  events: "select request_id as row from audit_events where request_id in ('due', 'kept')",
};
const user = (name: string, deletion: string, verified: string, created: string) => `
  insert into users (id, email, canonical_email, name, password_hash, password_changed_at, email_verified_at,
    terms_accepted_at, deletion_at, created_at, updated_at)
  values (gen_random_uuid(), '${name}@example.com', '${name}@example.com', '${name}', '-', now(), ${verified}, now(),
    ${deletion}, ${created}, now())`;
const month = (monthsAgo: number) =>
  `(date_trunc('month', now()) - interval '${monthsAgo} months')::date`;
/** Rows of which one is due, and one would be in a year. */
const SEED = [
  user("owner", "null", "now()", "now()"),
  user("deleted", "now() - interval '1 hour'", "now()", "now()"),
  user("in-grace", "now() + interval '29 days'", "now()", "now()"),
  user("never-verified", "null", "null", "now() - interval '60 days'"),
  user("to-be-verified", "null", "null", "now() - interval '1 hour'"),
  ...["due", "kept"].map(
    (device) => `
    insert into sessions (id, user_id, rotated_at, device, ip, created_at, last_active_at, expires_at, ends_at)
    select gen_random_uuid(), id, now(), '${device}', '::1', now(), now(), t, t
    from users, (select now() + interval '${device === "due" ? "-300 days" : "7 days"}' as t) as s where name = 'owner'`,
  ),
  ...["due", "kept"].map(
    (template) => `
    insert into emails (id, "to", template, facts, status, created_at)
    values (gen_random_uuid(), 'a@example.com', '${template}', '{}', 'sent', now() - interval '${template === "due" ? 300 : 10} days')`,
  ),
  `insert into emails (id, user_id, "to", template, facts, token_id, status, created_at, next_attempt_at)
   select gen_random_uuid(), id, email, 'verify-email', '{}', id, 'queued', now(), now() + interval '1 hour'
   from users where name = 'to-be-verified'`,
  `insert into one_time_tokens (id, user_id, kind, email, created_at, expires_at)
   select id, id, 'verify-email', email, now(), now() + interval '1 day' from users where name = 'to-be-verified'`,
  `insert into one_time_tokens (id, user_id, kind, email, created_at, expires_at)
   select gen_random_uuid(), id, 'reset-password', email, now(), now() - interval '1 day' from users where name = 'owner'`,
  `insert into attempts (kind, subject, failed, reserved_at)
   values ('password', 'due', 1, now() - interval '1 day'), ('password', 'kept', 1, now())`,
  ...["due", "kept"].map(
    (model) => `
    insert into ai_usage (id, provider, model, outcome, created_at)
    values (gen_random_uuid(), 'p', '${model}', 'completed', now() - interval '${model === "due" ? 60 : 2} days')`,
  ),
  ...[20, 2].map((months) => `select audit_add_partition(${month(months)})`),
  ...[20, 2].map(
    (months) => `
    insert into audit_events
    select overlay(audit_id_at(${month(months)})::text placing 'aaaaaaaaaaaa' from 25)::uuid, 'auth.login', 'success', null, null,
      '::1', 'test', '${months === 20 ? "due" : "kept"}', '{}', ${month(months)}`,
  ),
  "insert into audit_unsealed select id from audit_events where request_id in ('due', 'kept')",
];

describeIf(process.env.TEST_SERVERS, "A process with a wrong clock", async () => {
  const cases = [
    { what: "440 days ahead", aheadDays: 440 },
    { what: "440 days behind", aheadDays: -440 },
    { what: "6 minutes ahead", aheadDays: 6 / 1440 },
  ];
  test.for(cases)(
    "$what deletes nothing, is degraded, and deletes due rows once the clock is right",
    async ({ aheadDays }) => {
      const DATABASE_URL = await createDatabase();
      const env = {
        ...sharedVariables(),
        DATABASE_URL,
        UNVERIFIED_RETENTION: "30d",
        USAGE_RETENTION: "30d",
        MOVED_CLOCK_MS: String(-aheadDays * DAY_MS),
        MOVED_CLOCK_MOVES: "2", // backwards by a negative time
        NODE_OPTIONS: `--import=${resolve("test/resilience/preloads/moved-clock.ts")}`,
      };
      const { NODE_OPTIONS, ...right } = env;
      expect(await runScript("migrate", [], right)).toMatchObject({ code: 0 });
      for (const statement of SEED) await runSql(DATABASE_URL, statement);
      const rows = async () => {
        const read = Object.entries(COUNTS).map(async ([table, sql]) => {
          const found = await runSql<{ row: string }>(DATABASE_URL, `${sql} order by 1`);
          return [table, found.map(({ row }) => row)] as const;
        });
        return Object.fromEntries(await Promise.all(read));
      };
      const before = await rows();
      const started = await forTest(startProcess(env));
      const health = async () => (await createHttpClient(started.url).get("/health")).body;
      const degraded = await until("the difference to be shown", async () => {
        const body = await health();
        return body.status === "degraded" ? body : undefined;
      });
      expect(degraded.checks).toMatchObject({
        clock: { status: "down" },
        database: { status: "ok" },
      });
      const sealed = "select 1 from audit_unsealed having count(*) = 0";
      await until(
        "the events to be sealed",
        async () => (await runSql(DATABASE_URL, sealed)).length > 0,
      );
      const { keys: made = [], ...during } = await rows();
      const { keys: _none, ...kept } = before;
      expect(during).toEqual(kept);
      expect(made).toHaveLength(1);
      started.kill("SIGUSR2");
      await until("the clocks to agree", async () => (await health()).status === "ok");
      const remaining = {
        users: ["in-grace", "owner", "to-be-verified"],
        sessions: ["kept"],
        emails: ["kept", "verify-email"],
        tokens: ["verify-email"],
        attempts: ["kept"],
        usage: ["kept"],
        events: ["kept"],
        keys: expect.arrayContaining(made), // the one of a wrong clock, and perhaps its successor
      };
      await until("what is due to be deleted", async () =>
        JSON.stringify(await rows()).includes("due") ? undefined : true,
      );
      await expect.poll(rows).toEqual(remaining);
      const differ = started
        .output()
        .match(/"level":50[^\n]*clocks of process and database differ/g);
      expect(differ).toHaveLength(1);
    },
  );
});
