import { expect, test } from "vitest";
import { deletedUsers, purgeUsers } from "../../../services/accounts/erase-user.ts";
import { type AppContext, systemCall } from "../../../services/call.ts";
import { systemClock } from "../../../services/platform/process/clock.ts";
import { purgeExpired } from "../../../services/store/purge.ts";
import { createMigratedDatabase } from "../../support/database/databases.ts";
import { insertUsers, openQuietStore } from "../../support/database/store.ts";
import { forTest } from "../../support/suites.ts";

const onServers = test.runIf(process.env.TEST_SERVERS);
const lockout = { lockoutDurationMs: 1, lockoutResetMs: 1 };
const config = { ...lockout, emailRetentionMs: 0, sessionRetentionMs: 0, usageRetentionMs: 0 };

/**
 * Opens an empty database with users.
 * @param end when their deletions are due
 */
async function openWithUsers(count: number, end: Date | null, url?: string) {
  const store = await forTest(openQuietStore(url));
  await store.migrate();
  await insertUsers(store, count, { deletionAt: end });
  return { store, em: store.fork() };
}

test("Erasure of deleted accounts: stops between two accounts on shutdown", async () => {
  const { store, em } = await openWithUsers(3, new Date(0));
  const ending = new AbortController();
  let calls = 0;
  const createCall = () => {
    if (++calls === 2) ending.abort(); // the call that erases the first one
    return systemCall({ clock: systemClock } as AppContext, store, "jobs");
  };
  await purgeUsers(createCall, deletedUsers(new Date()), ending.signal);
  expect(await em.execute("select id from users")).toHaveLength(2);
});

onServers(
  "Retention: deletes failures of unknown addresses without reading all accounts for each",
  async () => {
    const { store, em } = await openWithUsers(2_000, null, await createMigratedDatabase());
    await em.execute(`
      insert into attempts (kind, subject, consecutive, reserved_at)
      select 'password', i || '@example.' || case i when 1 then 'com' else 'org' end, 1, now() from generate_series(1, 500) as i
      union all select 'second-factor', gen_random_uuid()::text, 1, now()
      union all (select 'second-factor', id::text, 1, now() from users limit 1)`);
    await em.execute("analyze users");
    await em.transactional(async () => {
      await purgeExpired(
        store,
        new Date(Date.now() + 60_000),
        config,
        new AbortController().signal,
      );
      const [users] = await em.execute<{ read: number }[]>(
        "select seq_tup_read::int as read from pg_stat_xact_user_tables where relname = 'users'",
      );
      expect(users?.read).toBeLessThan(100_000);
    });
    const left = await em.execute("select kind from attempts order by kind");
    expect(left).toEqual([{ kind: "password" }, { kind: "second-factor" }]);
  },
);

test("Retention: keeps what budgets hold, and their counts in current periods, however short it is", async () => {
  const { store, em } = await openWithUsers(1, null);
  const now = new Date("2026-11-28T12:00:00Z");
  await em.execute(`insert into budgets (id, scope, subject, unit, period, limit_amount, created_at)
    values ('01930000-0000-7000-8000-000000000000', 'deployment', '', 'tokens', 'day', 9, now())`);
  for (const [day, reserved] of [
    ["2026-09-01", 0],
    ["2026-09-02", 5],
    ["2026-11-01", 0],
    ["2026-11-28", 0],
  ])
    await em.execute(
      `insert into budget_counters (budget_id, subject, period_start, used, reserved)
       values ('01930000-0000-7000-8000-000000000000', '', ?, 3, ?)`,
      [day, reserved],
    );
  const shortest = { ...config, usageRetentionMs: 86_400_000 };
  await purgeExpired(store, now, shortest, new AbortController().signal);
  const left = await em.execute(
    "select period_start::text as day from budget_counters order by period_start",
  );
  expect(left).toEqual([{ day: "2026-09-02" }, { day: "2026-11-01" }, { day: "2026-11-28" }]);
});

test("Retention: deletes the budgets of API keys that are deleted", async () => {
  const { store, em } = await openWithUsers(1, null);
  const [kept, ended, unknown] = ["1", "2", "3"].map(
    (digit) => `01930000-0000-7000-8000-00000000000${digit}`,
  );
  for (const [key, revokedAt] of [
    [kept, null],
    [ended, "2026-11-01T00:00:00Z"],
  ])
    await em.execute(
      `insert into api_keys (id, user_id, digest, hint, name, created_at, created_by, revoked_at)
       select ?::uuid, id, decode(md5(?::text), 'hex'), 'hint', 'key', '2026-10-01', id, ? from users`,
      [key, key, revokedAt],
    );
  for (const subject of [kept, ended, unknown])
    await em.execute(
      `insert into budgets (id, scope, subject, unit, period, limit_amount, created_at)
       values (gen_random_uuid(), 'key', ?, 'tokens', 'day', 9, '2026-10-01')`,
      [subject],
    );
  await em.execute(`insert into budgets (id, scope, subject, unit, period, limit_amount, created_at)
    values (gen_random_uuid(), 'role', 'user', 'tokens', 'day', 9, '2026-10-01')`);
  const shortest = { ...config, usageRetentionMs: 86_400_000 };
  const now = new Date("2026-11-28T12:00:00Z");
  await purgeExpired(store, now, shortest, new AbortController().signal);
  const left = await em.execute("select subject from budgets order by subject");
  expect(left).toEqual([{ subject: kept }, { subject: "user" }]);
});
