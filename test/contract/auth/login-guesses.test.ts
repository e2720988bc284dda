import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { newId } from "../../../services/store/store.ts";
import { auditOf, signInAdmin } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";
import { tally, tallyGuesses, times } from "../../support/until.ts";

const app = await testApp();
const wrong = "Wrong-1-guess";
const guess = (email: string, from = app.httpClient()) => from.post("/auth/login", { email, password: wrong });

/** Stores unfinished guesses of a killed process. */
const storeUnfinished = (email: string, guesses: number, agoMs: number) => {
  const at = new Date(app.clock.now().getTime() - agoMs);
  return app.sql(
    `insert into attempts (kind, subject, reservations, reserved_at) values ('password', ?, ?::uuid[], ?)
     on conflict (kind, subject) do update set reservations = excluded.reservations, reserved_at = excluded.reserved_at`,
    [email, `{${times(guesses, () => newId(at))}}`, at],
  );
};

test("POST /auth/login: evaluates at most five guesses of 40 at once", async () => {
  const user = await app.addUser();
  const httpClient = app.httpClient();
  const answers = await Promise.all(times(40, () => guess(user.email, httpClient)));
  expect(tallyGuesses(answers)).toEqual({ evaluated: 5, refused: 35 });
  expect(await auditOf(app, user.id, "auth.login_failed")).toHaveLength(5);
  const locked = await app.httpClient().post("/auth/login", user.credentials);
  expect(locked).toMatchObject({ status: 423, body: { code: "ACCOUNT_LOCKED", error: "Locked" } });
  expect(Number(locked.headers.get("retry-after"))).toBeGreaterThan(890);
  app.clock.advance("15m");
  expect(await app.httpClient().post("/auth/login", user.credentials)).toMatchObject({ status: 200 });
});

test("POST /auth/login: evaluates at most five guesses from 40 addresses, also for an unknown account", async () => {
  const email = `${randomUUID()}@example.com`;
  const answers = await Promise.all(times(40, () => guess(email)));
  expect(tallyGuesses(answers)).toEqual({ evaluated: 5, refused: 35 });
  expect(tally(answers, (a) => a.status)[503] ?? 0).toBeLessThanOrEqual(25); // at least ten requests could wait
});

test("POST /auth/login: answers the sixth wrong login by 423 and the sixth correct one by 429", async () => {
  const [victim, regular] = [await app.addUser(), await app.addUser()];
  const [attacker, owner] = [app.httpClient(), app.httpClient()];
  const [bad, good] = [[] as number[], [] as number[]];
  for (let i = 0; i < 6; i++) bad.push((await guess(victim.email, attacker)).status);
  for (let i = 0; i < 5; i++) good.push((await owner.post("/auth/login", regular.credentials)).status);
  const sixth = await owner.post("/auth/login", regular.credentials);
  expect(bad).toEqual([401, 401, 401, 401, 401, 423]);
  expect([...good, sixth.status]).toEqual([200, 200, 200, 200, 200, 429]);
  expect(sixth.body.message).toMatch(/too many login attempts/i);
});

test("POST /auth/login: many accounts behind one address have twenty times the limit of one", async () => {
  const office = app.httpClient();
  const users = await Promise.all(times(8, () => app.addUser()));
  const answers = await Promise.all(users.map((user) => office.post("/auth/login", user.credentials)));
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 8 });
  const others = await Promise.all(times(100, () => guess(`${randomUUID()}@example.com`, office)));
  expect(tally(others, (a) => a.status)).toEqual({ 401: 92, 429: 8 });
});

test("POST /auth/login: stores no counters for the accounts of an address beyond its limit", async () => {
  const flooder = app.httpClient();
  const domain = `${randomUUID()}.example.com`;
  const answers = await Promise.all(times(120, (i) => guess(`ann${i}@${domain}`, flooder)));
  expect(tally(answers, (a) => a.status)).toEqual({ 401: 100, 429: 20 });
  expect(await app.sql("select 1 from attempts where subject like ?", [`%@${domain}`])).toHaveLength(100);
});

test("POST /auth/login: a success, or an hour after the last failure, restarts the count", async () => {
  const user = await app.addUser();
  const signIn = async () => (await app.httpClient().post("/auth/login", user.credentials)).status;
  for (let i = 0; i < 4; i++) expect((await guess(user.email)).status).toBe(401);
  expect(await signIn()).toBe(200);
  for (let i = 0; i < 4; i++) expect((await guess(user.email)).status).toBe(401);
  app.clock.advance("1h");
  expect((await guess(user.email)).status).toBe(401);
  expect(await signIn()).toBe(200);
});

test("POST /auth/login: attempts during a lock do not extend it", async () => {
  const user = await app.addUser();
  for (let i = 0; i < 5; i++) await guess(user.email);
  app.clock.advance("14m");
  const locked = await guess(user.email);
  expect(locked.status).toBe(423);
  expect(Number(locked.headers.get("retry-after"))).toBeLessThanOrEqual(60);
  app.clock.advance("61s");
  expect(await app.httpClient().post("/auth/login", user.credentials)).toMatchObject({ status: 200 });
});

test("POST /auth/login: the correct password clears unfinished attempts of a killed process", async () => {
  const user = await app.addUser();
  await storeUnfinished(user.email, 4, 60_000);
  expect((await app.httpClient().post("/auth/login", user.credentials)).status).toBe(200);
  for (let i = 0; i < 2; i++) expect((await guess(user.email)).status).toBe(401);
  expect((await app.httpClient().post("/auth/login", user.credentials)).status).toBe(200);
});

test("POST /auth/login: does not count unfinished attempts of a killed process as wrong", async () => {
  const user = await app.addUser();
  const login = async () => (await app.httpClient().post("/auth/login", user.credentials)).status;
  await storeUnfinished(user.email, 5, 31_000);
  expect(await login()).toBe(200);
  await storeUnfinished(user.email, 5, 31_000);
  for (let i = 0; i < 5; i++) expect((await guess(user.email)).status).toBe(401);
  expect(await login()).toBe(423);
});

test("POST /auth/login: ten callers at most wait until attempts in progress expire", async () => {
  const user = await app.addUser();
  await storeUnfinished(user.email, 5, 28_000);
  const answers = await Promise.all(times(11, () => app.httpClient().post("/auth/login", user.credentials)));
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 10, 503: 1 });
});

/** Resets the password by mail. */
async function reset(email: string, password = "Brand-new-2"): Promise<void> {
  await app.httpClient().post("/auth/forgot-password", { email });
  const { token } = await app.mail.emailTo(email, /Reset/);
  expect((await app.httpClient().post("/auth/reset-password", { token, password })).status).toBe(200);
}

test.each(["reset", "unlock"])(
  "POST /auth/login: works after a %s from an address that has used up its limit",
  async (by) => {
    const user = await app.addVerifiedUser();
    const owner = app.httpClient();
    for (let i = 0; i < 5; i++) await guess(user.email, owner);
    expect((await owner.post("/auth/login", user.credentials)).status).toBe(423);
    const { browser, accessToken } = await signInAdmin(app);
    if (by === "reset") await reset(user.email, "Brand-new-2");
    else await browser.put(`/admin/users/${user.id}`, { locked: false }, accessToken);
    const password = by === "reset" ? "Brand-new-2" : user.password;
    for (let i = 0; i < 5; i++)
      expect((await owner.post("/auth/login", { email: user.email, password })).status).toBe(200);
    expect((await owner.post("/auth/login", { email: user.email, password })).status).toBe(429);
  },
);

test("POST /auth/login: 100 wrong passwords in a row lock until a mailed reset, and notify the owner once a day", async () => {
  const user = await app.addVerifiedUser();
  const login = (password = user.password) => app.httpClient().post("/auth/login", { email: user.email, password });
  for (let lock = 0; lock < 2; lock++) {
    for (let i = 0; i < 5; i++) expect((await guess(user.email)).status).toBe(401);
    app.clock.advance("15m");
  }
  await app.sql("update attempts set consecutive = 98 where subject = ? and consecutive = 10", [user.email]);
  for (let i = 0; i < 2; i++) expect((await guess(user.email)).status).toBe(401);
  app.clock.advance("20h");
  const locked = await login();
  expect(locked).toMatchObject({ status: 423, body: { message: expect.stringContaining("reset your password") } });
  expect(locked.headers.get("retry-after")).toBeNull();
  const notices = await app.sql("select id from emails where user_id = ? and template = 'account-locked'", [user.id]);
  expect(notices).toHaveLength(1);
  await reset(user.email);
  expect((await login("Brand-new-2")).status).toBe(200);
});

test("POST /auth/login: evaluates at most 100 wrong passwords in a row, also in parallel", async () => {
  const user = await app.addUser();
  await guess(user.email);
  await app.sql("update attempts set consecutive = 98, failed = 0 where subject = ?", [user.email]);
  const answers = await Promise.all(times(5, () => guess(user.email)));
  expect(tallyGuesses(answers)).toEqual({ evaluated: 2, refused: 3 });
  const rows = await app.sql("select consecutive from attempts where subject = ?", [user.email]);
  expect(rows).toEqual([{ consecutive: 100 }]);
});

test("POST /auth/login: a site with an IPv6 /48 has ten times the limit of a /64", async () => {
  const from = (i: number) => ({ "x-forwarded-for": `2001:db8:${site}:${i.toString(16)}::1` });
  const site = Math.floor(Math.random() * 0xffff).toString(16);
  const register = (i: number) => app.httpClient().send("POST", "/auth/register", {}, from(i));
  const answers = await Promise.all(times(120, register));
  expect(tally(answers, (a) => a.status)).toEqual({ 400: 100, 429: 20 });
});
