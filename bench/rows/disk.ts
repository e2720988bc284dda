import { randomUUID } from "node:crypto";
import pg from "pg";
import { requireConfig } from "../../services/platform/config/config.ts";
import { createLog } from "../../services/platform/telemetry/log.ts";
import { openStore } from "../../services/store/open-store.ts";
import { purgeExpired } from "../../services/store/purge.ts";

/**
 * Simulates a year of an installation and measures its size on disk. The cleanup job of the service
 * runs after each simulated day. Seals only have the right size: `npm run audit:verify` rejects
 * them.
 */
const USERS = 1_000;
const SCALE = 100_000 / USERS;
const DAYS = 365;
/** Actions of a user in a year. An active day has eight refreshes and ten AI calls. */
const A_YEAR = { activeDays: 100, signIns: 52, otherEvents: 12, emails: 6 };
const share = (times: number) => `random() < ${times / DAYS}`;
const AGENT =
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";
const TABLES = [
  "users",
  "sessions",
  "attempts",
  "one_time_tokens",
  "emails",
  "ai_usage",
  "ai_usage_days",
].concat(["audit_events", "audit_seals"]);

const PREPARE = `
  select setseed(0.5);
  create function id_at(t timestamptz) returns uuid language sql volatile as $$
    select (lpad(to_hex((extract(epoch from t) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3)
      || 'a' || substr(md5(random()::text), 1, 15))::uuid $$;
  create function record(what text, who uuid, t timestamptz) returns void language sql as $$
    with event as (
      insert into audit_events select id_at(t), what, 'success', who, who, '203.0.113.' || (random() * 250)::int,
        '${AGENT}', gen_random_uuid()::text, '{}', t returning id)
    insert into audit_seals select coalesce((select max(position) from audit_seals), 0) + 1, array[id],
      sha256(id::text::bytea), null, sha256(id::text::bytea), t, sha256(id::text::bytea) from event $$;`;

const users = (start: string) => `
  insert into users (id, email, canonical_email, name, password_hash, password_changed_at, email_verified_at,
    terms_accepted_at, created_at, updated_at)
  select id_at(t), mail, mail, 'Given ' || initcap(substr(md5(n::text), 1, 8)), '$argon2id$' || repeat('x', 87), t, t, t, t, t
  from (select n, substr(md5(n::text), 1, 8) || '.' || n || '@mail.example.com' as mail,
          '${start}'::timestamptz + n * interval '1 second' as t from generate_series(1, ${USERS}) as n) as made`;

/** The statements of one day. `$1` is its start. */
const DAY = [
  `create temporary table active on commit preserve rows as
     select id, $1::timestamptz + random() * interval '12 hours' as t from users where ${share(A_YEAR.activeDays)}`,
  `with started as (select id, $1::timestamptz + random() * interval '20 hours' as t from users where ${share(A_YEAR.signIns)}),
     opened as (
       insert into sessions (id, user_id, rotated_at, device, ip, created_at, last_active_at, expires_at, ends_at)
       select id_at(t), id, t, 'Chrome on Windows', '203.0.113.77', t, t, t + interval '7 days', t + interval '30 days' from started),
     counted as (
       insert into attempts (kind, subject, reserved_at) select 'password', canonical_email, t
       from users join started using (id) on conflict (kind, subject) do update set reserved_at = excluded.reserved_at),
     seen as (update users u set last_login_at = t from started where started.id = u.id)
   select record('auth.login', id, t) from started`,
  ...Array.from(
    { length: 8 },
    (
      _,
      n,
    ) => `update sessions s set generation = generation + 1, rotated_at = t + interval '${15 * n} minutes',
       last_active_at = t + interval '${15 * n} minutes', expires_at = least(ends_at, t + interval '7 days')
     from active a where a.id = s.user_id and revoked_at is null and expires_at > t`,
  ),
  `with ended as (update sessions set revoked_at = $1::timestamptz + interval '21 hours'
     where revoked_at is null and random() < 1 / 14.0 returning user_id)
   select record('auth.logout', user_id, $1::timestamptz + interval '21 hours') from ended`,
  `select record('user.profile_updated', id, $1::timestamptz + random() * interval '20 hours')
   from users where ${share(A_YEAR.otherEvents)}`,
  `with due as (select id, email, $1::timestamptz + random() * interval '20 hours' as t, id_at($1) as token
     from users where ${share(A_YEAR.emails)}),
     tokens as (
       insert into one_time_tokens (id, user_id, kind, email, created_at, expires_at)
       select token, id, 'reset-password', email, t, t + interval '1 hour' from due
       on conflict (user_id, kind) do update set id = excluded.id, expires_at = excluded.expires_at)
   insert into emails (id, user_id, "to", template, facts, token_id, status, attempts, created_at, sent_at)
   select id_at(t), id, email, 'reset-password', '{"name": "Given Name"}', token, 'sent', 1, t, t from due`,
  `insert into ai_usage
   select id_at(at), id, 'provider-' || which, 'model-' || which || '-1', 'completed', 900, 400, false, 4200, 600, at
   from (select id, t + n * interval '11 minutes' as at, case when random() < 0.1 then 'b' else 'a' end as which
         from active, generate_series(1, 10) as n) as calls`,
  "drop table active",
];

const server = process.env.TEST_DATABASE_URL ?? "postgres://postgres@127.0.0.1:5432/postgres";
const name = `gatehouse_bench_${randomUUID().slice(0, 8)}`;
const admin = new pg.Client(server);
await admin.connect();
await admin.query(`create database ${name}`);
const url = Object.assign(new URL(server), { pathname: `/${name}` }).href;
const store = await openStore({ kind: "postgres", url }, createLog("warn"));
const client = new pg.Client(url);
try {
  await store.migrate();
  await client.connect();
  await simulate();
  await report();
} finally {
  await client.end();
  await store.close();
  await admin.query(`drop database ${name} with (force)`);
  await admin.end();
}

async function simulate(): Promise<void> {
  const config = requireConfig({});
  const start = Date.now() - DAYS * 86_400_000;
  await client.query("set synchronous_commit = off");
  await client.query(PREPARE);
  await client.query(`select audit_add_partition(month::date) from generate_series(
    date_trunc('month', now() - interval '${DAYS + 1} days'), now(), '1 month') as month`);
  await client.query(users(new Date(start).toISOString()));
  for (let day = 0; day < DAYS; day++) {
    const at = new Date(start + day * 86_400_000);
    for (const sql of DAY) await client.query(sql.replaceAll("$1", `'${at.toISOString()}'`));
    const night = new Date(at.getTime() + 86_400_000);
    await purgeExpired(store, night, config, new AbortController().signal);
    if (day % 7 === 6) await client.query(`vacuum (analyze) ${TABLES.join(", ")}`); // as often as autovacuum would run
  }
}

/** Prints a line per table: rows and size, measured and scaled to 100,000 users. */
async function report(): Promise<void> {
  process.stdout.write(
    "| table | rows | table, MB | indexes, MB | bytes a row | rows × 100 | GB × 100 |\n|---|---|---|---|---|---|---|\n",
  );
  let sum = 0;
  for (const table of TABLES) {
    const { rows } = await client.query(
      `select (select count(*)::float8 from ${table}) as count, sum(pg_table_size(relid))::float8 as heap,
         sum(pg_indexes_size(relid))::float8 as indexes, sum(pg_total_relation_size(relid))::float8 as total
       from (select relid from pg_partition_tree('${table}') union select '${table}'::regclass) as parts (relid)`,
    );
    const { count, heap, indexes, total } = rows[0];
    sum += total;
    const figures = [
      count,
      heap / 1e6,
      indexes / 1e6,
      total / Math.max(count, 1),
      count * SCALE,
      (total * SCALE) / 1e9,
    ];
    process.stdout.write(
      `| ${table} | ${figures.map((n, i) => n.toFixed(i % 3 === 0 || i === 4 ? 0 : 2)).join(" | ")} |\n`,
    );
  }
  process.stdout.write(`| all | | | | | | ${((sum * SCALE) / 1e9).toFixed(1)} |\n`);
}
