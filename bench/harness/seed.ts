import pg from "pg";
import { createLog } from "../../services/platform/telemetry/log.ts";
import { openStore } from "../../services/store/open-store.ts";

/** Numbers of rows. */
export type Sizes = { users: number; events: number; emails: number; calls: number };

/**
 * How calls are distributed over users. `flat`: half of them belong to a twentieth of the users, who
 * all make equally many. `zipf`: user n makes 1/n as many as the first one, who makes 5 % of the calls
 * of a million users.
 */
export type Skew = "flat" | "zipf";

const CHUNK = 250_000;

/** Days over which AI calls are spread. */
const CALL_DAYS = 90;

/**
 * Fills an empty PostgreSQL database with users, audit events and e-mails that are spread over the
 * past year, and AI calls that are spread over the past 90 days. A hundredth of the users have an
 * API key and make all of their calls with it. The SQL server generates the rows. The events are
 * not sealed.
 */
export async function seed(
  url: string,
  { users, events, emails, calls }: Sizes,
  skew: Skew = "flat",
): Promise<void> {
  const store = await openStore({ kind: "postgres", url }, createLog("warn"));
  await store.migrate();
  await store.close();
  const client = new pg.Client(url);
  await client.connect();

  /** UUIDv7 of row i of n. Their times are spread evenly over the past year. */
  const idOf = (
    i: string,
    n: number,
  ) => `(lpad(to_hex((extract(epoch from now() - interval '365 days') * 1000
  + ${i}::bigint * 365 * 86400 * 1000 / ${n})::bigint), 12, '0') || '7' || substr(md5(${i}::text), 1, 3) || 'a'
  || substr(md5(${i}::text || 'x'), 1, 15))::uuid`;
  const timeOf = (i: string, n: number) =>
    `now() - interval '365 days' + ${i} * interval '365 days' / ${n}`;

  async function inChunks(
    what: string,
    count: number,
    sql: (from: number, to: number) => string,
  ): Promise<void> {
    const started = performance.now();
    for (let from = 1; from <= count; from += CHUNK)
      await client.query(sql(from, Math.min(from + CHUNK - 1, count)));
    process.stdout.write(
      `${what}: ${count} rows in ${Math.round((performance.now() - started) / 1000)} s\n`,
    );
  }

  await client.query(
    "set synchronous_commit = off; set maintenance_work_mem = '1GB'; set work_mem = '512MB'",
  );
  await client.query("drop index if exists users_search_folded");
  await inChunks(
    "users",
    users,
    (from, to) => `
  insert into users (id, email, canonical_email, name, role, password_hash, password_changed_at, email_verified_at,
    terms_accepted_at, last_login_at, created_at, updated_at)
  select ${idOf("i", users)}, mail, mail, initcap(first || ' ' || last), case when i % (${users} / 50) = 7 then 'admin' else 'user' end,
    '-', made, case when i % 10 <> 3 then made end, made, made, made, made
  from (select i, first, last, first || '.' || last || '.' || i || '@' ||
          (array['example.com','mail.example.org','post.example.net','uni.example.edu'])[1 + i % 4] as mail,
          ${timeOf("i", users)} as made
        from (select i,
                (array['ann','bea','cem','dora','emil','finn','gita','hana','ivan','jana','kofi','lena','mika','nora','omar','pia','rosa','sven','tara','zoe'])[1 + (i::bigint * 7919) % 20] as first,
                substr(translate(md5((i % 20000)::text), '0123456789', 'ghijklmnop'), 1, 7) as last
              from generate_series(${from}, ${to}) as i) as named) as made`,
  );
  await client.query(`
  insert into attempts (kind, subject, reserved, failed, reserved_at, failed_at, locked_until)
  select 'password', canonical_email, 0, 5, now(), now(), now() + interval '30 days'
  from users where id in (select id from users tablesample bernoulli (0.1))`);
  await client.query(`
  select audit_add_partition(month::date) from generate_series(
    date_trunc('month', (now() - interval '366 days') at time zone 'UTC'), date_trunc('month', now()), '1 month') as month`);
  await client.query(
    `create temporary table people as
     select n, id, role, email, case when n <= ${users} / 100 then gen_random_uuid() end as key_id
     from (select row_number() over (order by id) as n, id, role, email from users) as numbered`,
  );
  await client.query("create index on people (n); analyze people");
  await client.query(
    "create temporary table admins as select row_number() over (order by id) as n, id from people where role = 'admin'",
  );
  await client.query("create index on admins (n); analyze admins");
  const admins = Number((await client.query("select count(*) from admins")).rows[0].count);
  // Administrators cause 1 % of the events. A fifth of the others belongs to 0.1 % of the users.
  await inChunks(
    "audit events",
    events,
    (from, to) => `
  insert into audit_events (id, event, outcome, user_id, actor_id, ip, user_agent, request_id, details, created_at)
  select ${idOf("i", events)}, event, case when event like '%failed' then 'failure' else 'success' end, p.id,
    case when event like 'admin%' then a.id when event not like '%failed' then p.id end,
    '10.' || i % 250 || '.7.1', 'Mozilla/5.0 (X11; Linux x86_64) Chrome/140', md5(i::text), '{}', ${timeOf("i", events)}
  from (select i,
          case when i % 100 = 0 then (array['admin.user_updated','admin.sessions_revoked','admin.impersonated'])[1 + (i / 100) % 3]
               when i % 100 < 60 then 'auth.login' when i % 100 < 75 then 'auth.logout' when i % 100 < 90 then 'auth.login_failed'
               when i % 100 < 97 then 'user.profile_updated' else 'user.password_changed' end as event,
          case when i % 5 = 0 then 1 + (i::bigint * 7919) % (${users} / 1000) else 1 + (i::bigint * 104729) % ${users} end as person
        from generate_series(${from}, ${to}) as i) as e
  join people p on p.n = e.person join admins a on a.n = 1 + (e.i / 100) % ${admins}`,
  );
  // 0.2 % of the e-mails have failed, and the newest 50 are queued.
  await inChunks(
    "e-mails",
    emails,
    (from, to) => `
  insert into emails (id, user_id, "to", template, facts, status, attempts, last_error, created_at, sent_at, next_attempt_at)
  select ${idOf("i", emails)}, p.id, p.email, (array['verify-email','verify-email','reset-password','password-changed','session-reused'])[1 + i % 5],
    '{}', status, case when status = 'queued' then 0 else 1 end, case when status = 'failed' then '550 no such mailbox' end,
    ${timeOf("i", emails)}, case when status = 'sent' then ${timeOf("i", emails)} end, case when status = 'queued' then now() end
  from (select i, 1 + (i::bigint * 104729) % ${users} as person,
          case when i > ${emails} - 50 then 'queued' when i % 500 = 3 then 'failed' else 'sent' end as status
        from generate_series(${from}, ${to}) as i) as e
  join people p on p.n = e.person`,
  );
  await client.query(`
  insert into api_keys (id, user_id, digest, hint, name, created_at, created_by)
  select key_id, id, decode(md5(key_id::text) || md5(id::text), 'hex'), 'gh_0000', 'Key ' || n, now() - interval '${CALL_DAYS} days', id
  from people where key_id is not null`);
  // The sums of the calls are inserted at the end, and indexes are created then, which takes a
  // third of the time.
  await client.query("update ai_usage_summing set summed_from = '-infinity'");
  await client.query("alter table ai_usage disable trigger user");
  const definitions = (
    await client.query<{ drop: string; create: string }>(`
  select 'drop index ' || indexrelid::regclass as drop, pg_get_indexdef(indexrelid) as create
  from pg_index where indexrelid::regclass::text in ('ai_usage_user', 'ai_usage_created', 'ai_usage_users_tokens')
  union all
  select 'alter table ai_usage_users drop constraint ai_usage_users_key',
    'alter table ai_usage_users add constraint ai_usage_users_key ' || pg_get_constraintdef(oid)
  from pg_constraint where conname = 'ai_usage_users_key'`)
  ).rows;
  for (const { drop } of definitions) await client.query(drop);
  const caller = {
    flat: `case when i % 2 = 0 then 1 + (i::bigint * 7919) % greatest(1, ${users} / 10) else 1 + (i::bigint * 104729) % ${users} end`,
    zipf: `floor(power(${users}::float8, i * 0.6180339887498949::float8 - floor(i * 0.6180339887498949::float8)))::bigint`,
  };
  // A seventh name an alias.
  await inChunks(
    "AI calls",
    calls,
    (from, to) => `
  insert into ai_usage (id, user_id, api_key_id, alias, provider, model, outcome, input_tokens, output_tokens, estimated, latency_ms,
    first_chunk_ms, created_at)
  select ${idOf("i", calls)}, p.id, p.key_id, case when i % 7 = 0 then 'alias-' || i % 5 end, 'provider-' || substr('abcd', 1 + i % 4, 1), 'model-' || substr('abcd', 1 + i % 4, 1) || '-' || 1 + i % 3,
    case when i % 50 = 7 then 'rate limited' else 'completed' end, 100 + i % 900, 50 + i % 700, i % 50 = 7, 900 + i % 3000, 300 + i % 500, made
  from (select i, now() - interval '${CALL_DAYS} days' + i * interval '${CALL_DAYS} days' / ${calls} as made,
          ${caller[skew]} as person
        from generate_series(${from}, ${to}) as i) as c
  join people p on p.n = c.person`,
  );
  const sums =
    "count(*), sum(input_tokens), sum(output_tokens), sum(estimated::int) from ai_usage group by";
  const counts = "calls, input_tokens, output_tokens, estimated_calls";
  const day = "(created_at at time zone 'UTC')::date";
  await client.query(
    `insert into ai_usage_users (day, user_id, ${counts}) select ${day}, user_id, ${sums} 1, 2 order by 1, 2`,
  );
  await client.query(
    `insert into ai_usage_models (day, provider, model, ${counts}) select ${day}, provider, model, ${sums} 1, 2, 3`,
  );
  for (const { create } of definitions) await client.query(create);
  await client.query("alter table ai_usage enable trigger user");
  await client.query(`
  create index users_search_folded on users using gin ((folded(email || chr(10) || name || chr(10) || canonical_email)) gin_trgm_ops) with (fastupdate = off)`);
  await client.query("vacuum (analyze) users");
  await client.query("vacuum (analyze) audit_events");
  await client.query("vacuum (analyze) attempts");
  await client.query("vacuum (analyze) emails");
  for (const table of ["ai_usage", "ai_usage_users", "ai_usage_models"])
    await client.query(`vacuum (analyze) ${table}`);
  await client.end();
}
