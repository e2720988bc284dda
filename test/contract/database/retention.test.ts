import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { newId } from "../../../services/store/ids.ts";
import { createKey, createService, keyStatus } from "../../support/api-keys.ts";
import { startSuiteApp } from "../../support/app.ts";
import { until } from "../../support/until.ts";

const env = { UNVERIFIED_RETENTION: "30d", SESSION_RETENTION: "3d", USAGE_RETENTION: "1d" };
const app = await startSuiteApp({ env });

/** Advances the clock until a job has run. The job leaves locked rows to its next run. */
const passes = (what: string, check: () => Promise<boolean>) =>
  until(what, async () => {
    if (await check()) return true;
    await wait(1_100);
    app.clock.advance("1h");
    return false;
  });

test("EMAIL_RETENTION and UNVERIFIED_RETENTION: old e-mails are deleted, and so are accounts that were neither verified nor used", async () => {
  const [unused, used, verified] = [
    await app.addUser(),
    await app.addUser(),
    await app.addVerifiedUser(),
  ];
  const signedIn = await app.signIn();
  const ids = [unused.id, used.id, verified.id, signedIn.user.id];
  const left = async () =>
    (await app.sql<{ id: string }>("select id from users where id in (?)", [ids])).map(
      ({ id }) => id,
    );
  const emails = () => app.sql("select id from emails where user_id in (?)", [ids]);
  for (const part of ["6d", "6d", "6d", "6d", "5d"] as const) {
    app.clock.advance(part);
    expect((await signedIn.browser.post("/auth/refresh")).status).toBe(200);
  }
  await app.signIn(used);
  app.clock.advance("2d");
  await passes("the unused account to be erased", async () => (await left()).length === 3);
  expect((await left()).sort()).toEqual(ids.slice(1).sort());
  expect(await emails()).not.toEqual([]);
  app.clock.advance("60d");
  await passes("old e-mails to be deleted", async () => (await emails()).length === 0);
  if (process.env.TEST_MODE && process.env.TEST_MODE !== "embedded") return; // sent by SMTP
  const folder = join(app.settings.DATA_DIR as string, "mail");
  const others = [`${newId(new Date(0))}.eml`, `${"a".repeat(36)}.eml`]; // of an earlier run, and of no e-mail
  const files = () => readdirSync(folder).filter((name) => name.endsWith(".eml"));
  const admin = await app.signInAdmin();
  const [kept, erased] = [await app.addUser(), await app.addUser()];
  for (const { email } of [admin.user, kept, erased]) await app.mail.emailTo(email);
  for (const name of [`${newId(app.clock.now())}.eml`, ...others])
    writeFileSync(join(folder, name), "not stored");
  await admin.delete(`/admin/users/${erased.id}`);
  await passes(
    "the files of deleted e-mails to be deleted",
    async () => files().length === 2 + others.length,
  );
  const rows = await app.sql<{ id: string }>("select id from emails where user_id in (?)", [
    [admin.user.id, kept.id],
  ]);
  expect(files().sort()).toEqual([...rows.map(({ id }) => `${id}.eml`), ...others].sort());
});

test("SESSION_RETENTION: sessions that ended before this time are deleted", async () => {
  const { user, post } = await app.signIn();
  const sessions = async () =>
    (await app.sql("select 1 from sessions where user_id = ?", [user.id])).length;
  await post("/auth/logout");
  app.clock.advance("2d");
  await (await app.signIn(user)).post("/auth/logout");
  await app.signIn(user);
  expect(await sessions()).toBe(3);
  app.clock.advance("2d");
  await passes("the older session to be deleted", async () => (await sessions()) < 3);
  expect(await sessions()).toBe(2);
});

test("GET /user/usage, GET /admin/usage: return the same after USAGE_RETENTION has aggregated the calls", async () => {
  const [user, erased] = [await app.addUser({ role: "admin" }), await app.addUser()];
  const today = Date.parse(app.clock.now().toISOString().slice(0, 10));
  const hoursAgo = (hours: number) => new Date(today - hours * 3_600_000).toISOString();
  await app.sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, output_tokens, estimated, created_at)
     select gen_random_uuid(), id, 'p', 'model ' || n % 2, 'completed', n, 2, n % 3 = 0, ?::timestamptz + n * interval '10 seconds'
     from unnest(array[?, ?, null]::uuid[]) as id, generate_series(1, 8000) as n`,
    [hoursAgo(24), user.id, erased.id],
  );
  const read = async (from = 24, to = 0) => {
    const { get } = await app.signIn(user);
    const query = `from=${hoursAgo(from)}&to=${hoursAgo(to)}`;
    const paths = [
      `/user/usage?${query}`,
      `/admin/usage?${query}`,
      `/admin/usage?${query}&userId=${erased.id}`,
    ];
    return Promise.all(paths.map(async (path) => (await get(path)).body));
  };
  const before = await read();
  expect(before.map(({ length }) => length)).toEqual([2, 6, 2]);
  app.clock.advance("2d");
  const calls = () => app.sql("select 1 from ai_usage limit 1");
  await passes("old calls to be replaced", async () => (await calls()).length === 0);
  expect(await read()).toEqual(before);
  expect(await read(1, -1)).toEqual(before); // sums have days, not times
  expect(await read(24, 1)).toEqual([[], [], []]);
  expect(await app.sql("select 1 from ai_usage_days where user_id = ?", [user.id])).toHaveLength(2);
  const admin = await app.signInAdmin(user);
  const { body } = await admin.get("/user/export");
  expect(body.usage).toEqual([]);
  expect(body.usageDays).toEqual(before[0].map(({ userId, ...sums }: { userId: string }) => sums));
  await admin.delete(`/admin/users/${erased.id}`);
  const [own, all, ofErased] = await read();
  const sum = (rows: { calls: number }[]) => rows.reduce((total, row) => total + row.calls, 0);
  expect([sum(own), sum(all), ofErased]).toEqual([8_000, 24_000, []]);
});

test("USAGE_RETENTION: ended API keys are deleted, and valid ones and service accounts remain", async () => {
  const account = await app.signIn(await app.addVerifiedUser());
  const [valid, revoked] = [await createKey(account), await createKey(account)];
  const service = await createService(app);
  await account.delete(`/user/api-keys/${revoked.apiKey.id}`);
  const ids = [valid, revoked, service].map(({ apiKey }) => apiKey.id);
  const left = async () =>
    (await app.sql<{ id: string }>("select id from api_keys where id in (?)", [ids])).map(
      ({ id }) => id,
    );
  app.clock.advance("40d");
  await passes("the revoked key to be deleted", async () => (await left()).length === 2);
  expect((await left()).sort()).toEqual([valid.apiKey.id, service.apiKey.id].sort());
  expect(await keyStatus(app, service.key)).toBe(200);
});
