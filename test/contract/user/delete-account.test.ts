import { expect, test } from "vitest";
import { PASSWORD, type SignedIn, WRONG_CODE, WRONG_PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { begin, commitMeanwhile } from "../../support/database/transaction.ts";
import { withToken } from "../../support/http/client.ts";
import { invalid, refusal } from "../../support/http/responses.ts";
import { tally, times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const url = app.settings.DATABASE_URL as string;
const raced = test.runIf(app.mode !== "embedded"); // with a transaction of another connection
const remove = ({ post }: Pick<SignedIn, "post">, body?: object) =>
  post("/user/delete-account", body);
const signIn = ({ user }: Pick<SignedIn, "user">) => app.login(user.email);
const isGone = async ({ user }: SignedIn) =>
  (await app.sql("select 1 from users where id = ?", [user.id])).length === 0;

test("POST /user/delete-account: ends every session, and names the date in the response and the e-mail", async () => {
  const account = await app.signIn();
  const other = await app.signIn(account.user);
  const { status, body } = await remove(account, { password: account.user.password });
  expect([status, Object.keys(body).sort()]).toEqual([200, ["deletionDate", "message"]]);
  const days = (new Date(body.deletionDate).getTime() - app.clock.now().getTime()) / 86_400_000;
  expect(days).toBeGreaterThan(29.99);
  expect(days).toBeLessThanOrEqual(30);
  for (const each of [account, other]) {
    expect(await each.profileStatus()).toBe(401);
    expect((await each.browser.post("/auth/refresh")).status).toBe(401);
  }
  const mail = await app.mail.emailTo(account.user.email, /will be deleted/);
  const [, day, time] = /deleted on (.*) at (.*) UTC/.exec(mail.text ?? "") ?? [];
  const minute = body.deletionDate.slice(0, "2026-12-24T18:00".length);
  expect(new Date(`${day} ${time} UTC`).toISOString()).toBe(`${minute}:00.000Z`);
});

test("POST /user/delete-account: requires the password once the sign-in is 15 minutes old", async () => {
  const { user, browser } = await app.signIn();
  app.clock.advance("14m");
  const refreshed = withToken(browser, (await browser.post("/auth/refresh")).body.accessToken);
  app.clock.advance("2m");
  expect(await remove(refreshed)).toMatchObject(invalid("password"));
  const wrong = await remove(refreshed, { password: WRONG_PASSWORD });
  expect(wrong).toMatchObject(refusal(400, "INVALID_CURRENT_PASSWORD"));
  expect((await remove(refreshed, { password: user.password })).status).toBe(200);
});

test("POST /user/delete-account: accepts an empty body within 15 minutes; a sign-in restores the account and says so", async () => {
  const account = await app.signIn();
  expect((await remove(account)).status).toBe(200);
  app.clock.advance("29d");
  const back = await signIn(account);
  expect(back).toMatchObject({ status: 200, body: { restored: true } });
  const { updatedAt } = (await account.browser.get("/user/profile", back.body.accessToken)).body;
  expect(app.clock.now().getTime() - new Date(updatedAt).getTime()).toBeLessThan(60_000);
  const again = await signIn(account);
  expect(again.body).not.toHaveProperty("restored");
  app.clock.advance("2d");
  expect((await signIn(account)).status).toBe(200);
});

raced("POST /user/delete-account: concurrent logins restore the account once", async () => {
  const account = await app.signIn();
  expect((await remove(account)).status).toBe(200);
  const hold = "update users set name = name where id = $1";
  const held = await begin(url, hold, [account.user.id]);
  const logins = times(4, () => signIn(account));
  const waiting =
    "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
  await until("all logins to wait for the lock", async () => (await app.sql(waiting)).length === 4);
  await held.commit();
  const answers = await Promise.all(logins);
  expect(tally(answers, (a) => `${a.status} ${a.body.restored ?? ""}`)).toEqual({
    "200 true": 1,
    "200 ": 3,
  });
  expect(await app.auditOf(account.user.id, "user.restored")).toHaveLength(1);
});

test("POST /user/delete-account: only the second factor restores an account that has one", async () => {
  const account = await app.setUpFactor();
  const older = await app.mfaTokenFor(account.user);
  const verify = async (tempToken: string) =>
    app.verifyMfa(tempToken, { code: await account.authenticator.code() });
  expect((await remove(account)).status).toBe(200);
  expect((await verify(older)).status).toBe(401);
  const deletionAt = () =>
    app.sql("select deletion_at is null as kept from users where id = ?", [account.user.id]);
  const { body } = await signIn(account);
  expect(await deletionAt()).toEqual([{ kept: false }]);
  const verified = await verify(body.tempToken);
  expect(verified).toMatchObject({ status: 200, body: { restored: true } });
  expect(await deletionAt()).toEqual([{ kept: true }]);
});

test("POST /user/delete-account: erases the account after the deletion date, and leaves a pseudonym in the audit log", async () => {
  const account = await app.setUpFactor();
  const { id, email, name } = account.user;
  await app.signInBy(account.user, WRONG_CODE);
  await app.guess(email);
  await app.httpClient().post("/auth/forgot-password", { email });
  expect((await remove(account)).status).toBe(200);
  app.clock.advance("30d");
  await until("the erasure", () => isGone(account));
  const everything = await app.sql<{ row: string }>(
    `select to_jsonb(e)::text as row from emails e union all select to_jsonb(s)::text from sessions s
       union all select to_jsonb(t)::text from one_time_tokens t union all select to_jsonb(a)::text from attempts a
       union all select to_jsonb(b)::text from backup_codes b union all select to_jsonb(a)::text from audit_events a`,
  );
  expect(everything.filter(({ row }) => row.includes(email))).toEqual([]);
  const left = everything.filter(({ row }) => row.includes(id)).map(({ row }) => JSON.parse(row));
  expect(left.map(({ event }) => event)).toContain("user.erased");
  expect(left.every((row) => "event" in row && !JSON.stringify(row).includes(name))).toBe(true);
  expect((await signIn(account)).status).toBe(401);
  expect((await app.addUser({ email })).id).not.toBe(id);
});

test("POST /user/delete-account: an account that cannot be erased delays no other, and is erased later, even if the clock is set back", async () => {
  await app.sql("create table holds (user_id uuid references users)");
  const [held, due] = [await app.signIn(), await app.signIn()];
  await app.sql("insert into holds values (?)", [held.user.id]);
  for (const account of [held, due]) expect((await remove(account)).status).toBe(200);
  app.clock.advance("31d");
  await until("the other account to be erased", () => isGone(due));
  expect(await isGone(held)).toBe(false);
  expect((await signIn(held)).status).toBe(401); // its deletion date has passed
  await app.sql("delete from holds"); // dropping it could deadlock with the erasure of another replica
  app.clock.advance("-1h"); // it is still due
  await until("the account to be erased after all", () => isGone(held));
  await app.sql("drop table holds");
});

test("POST /user/delete-account: is refused for the last administrator", async () => {
  const credentials = { email: "root@example.com", password: PASSWORD };
  const account = await app.signIn({ ...(await app.addUser()), credentials });
  const others = "where role = 'admin' and email <> 'root@example.com'";
  const demoted = await app.sql<{ id: string }>(
    `update users set role = 'user' ${others} returning id`,
  );
  const answer = await remove(account);
  for (const { id } of demoted) await app.sql("update users set role = 'admin' where id = ?", [id]);
  expect(answer).toMatchObject(refusal(409, "LAST_ADMIN"));
  const [denied] = await app.sql(
    "select details from audit_events where event = 'admin.denied' order by id desc",
  );
  expect(denied).toEqual({ details: { reason: "LAST_ADMIN", rpc: "DeleteAccount" } });
});

raced(
  "POST /user/delete-account: is refused for a user who has just become the last administrator",
  async () => {
    const account = await app.signIn();
    const { id } = account.user;
    const admins = await app.sql<{ id: string }>("select id from users where role = 'admin'");
    const exchange =
      "update users set role = case when id = $1 then 'admin' else 'user' end where id = $1 or role = 'admin'";
    const answer = await commitMeanwhile(url, exchange, [id], () => remove(account));
    await app.sql("update users set role = 'admin' where id in (?)", [
      admins.map((admin) => admin.id),
    ]);
    expect(answer).toMatchObject(refusal(409, "LAST_ADMIN"));
  },
);
