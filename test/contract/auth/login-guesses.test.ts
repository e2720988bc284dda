import { randomUUID } from "node:crypto";
import { test as base, expect } from "vitest";
import { newId } from "../../../services/store/ids.ts";
import { freshEmail, NEW_PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import type { HttpClient } from "../../support/http/client.ts";
import { statusesOf, tally, tallyGuesses, times } from "../../support/tally.ts";

const app = await testApp();
const test = base.extend("user", () => app.addUser()).extend("email", ({ user }) => user.email);
/**
 * Guesses in order.
 * @returns the statuses
 */
async function guesses(email: string, count: number, from?: HttpClient): Promise<number[]> {
  const statuses = [];
  for (let i = 0; i < count; i++) statuses.push((await app.guess(email, from)).status);
  return statuses;
}

/** Stores unfinished guesses of a killed process. */
const storeUnfinished = (email: string, guesses: number, agoMs: number) => {
  const at = new Date(app.clock.now().getTime() - agoMs);
  return app.sql(
    `insert into attempts (kind, subject, reservations, reserved_at) values ('password', ?, ?::uuid[], ?)
     on conflict (kind, subject) do update set reservations = excluded.reservations, reserved_at = excluded.reserved_at`,
    [email, `{${times(guesses, () => newId(at))}}`, at],
  );
};

test("POST /auth/login: evaluates at most five of 40 concurrent guesses", async ({
  user: { id, email },
}) => {
  const httpClient = app.httpClient();
  const answers = await Promise.all(times(40, () => app.guess(email, httpClient)));
  expect(tallyGuesses(answers)).toEqual({ evaluated: 5, refused: 35 });
  expect(await app.auditOf(id, "auth.login_failed")).toHaveLength(5);
  const locked = await app.login(email);
  expect(locked).toMatchObject({ status: 423, body: { code: "ACCOUNT_LOCKED", error: "Locked" } });
  expect(Math.ceil(Number(locked.headers.get("retry-after")) / 60)).toBe(15); // minutes
  app.clock.advance("15m");
  expect((await app.login(email)).status).toBe(200);
});

test("POST /auth/login: evaluates at most five guesses from 40 addresses, even for an unknown account", async () => {
  const email = freshEmail();
  const answers = await Promise.all(times(40, () => app.guess(email)));
  expect(tallyGuesses(answers)).toEqual({ evaluated: 5, refused: 35 });
  expect(tally(answers, (a) => a.status)[503] ?? 0).toBeLessThanOrEqual(25); // at least ten requests could wait
});

test("POST /auth/login: returns 423 for the sixth wrong login and 429 for the sixth correct one", async () => {
  expect(await guesses((await app.addUser()).email, 6, app.httpClient())).toEqual([
    401, 401, 401, 401, 401, 423,
  ]);
  const { user, browser } = await app.signIn();
  const good = [];
  for (let i = 2; i <= 6; i++) good.push(await browser.post("/auth/login", user.credentials));
  expect(good.map(({ status }) => status)).toEqual([200, 200, 200, 200, 429]);
  expect(good[4]?.body.message).toMatch(/too many login attempts/i);
});

test("POST /auth/login: an address may make twenty times the attempts of one account, and requests beyond that store nothing", async () => {
  const office = app.httpClient();
  const users = await Promise.all(times(8, () => app.addUser()));
  const answers = await Promise.all(
    users.map((user) => office.post("/auth/login", user.credentials)),
  );
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 8 });
  const domain = `${randomUUID()}.example.com`;
  expect(await statusesOf(112, (i) => app.guess(`ann${i}@${domain}`, office))).toEqual({
    401: 92,
    429: 20,
  });
  expect(
    await app.sql("select 1 from attempts where subject like ?", [`%@${domain}`]),
  ).toHaveLength(92);
});

test("POST /auth/login: a success restarts the count, and so does an hour after the last failure", async ({
  email,
}) => {
  expect(await guesses(email, 4)).toEqual([401, 401, 401, 401]);
  expect((await app.login(email)).status).toBe(200);
  expect(await guesses(email, 4)).toEqual([401, 401, 401, 401]);
  app.clock.advance("1h");
  expect(await guesses(email, 1)).toEqual([401]);
  expect((await app.login(email)).status).toBe(200);
});

test("POST /auth/login: attempts during a lock do not extend it", async ({ email }) => {
  await app.lock(email);
  app.clock.advance("14m");
  const locked = await app.guess(email);
  expect(locked.status).toBe(423);
  expect(Number(locked.headers.get("retry-after"))).toBeLessThanOrEqual(60);
  app.clock.advance("61s");
  expect((await app.login(email)).status).toBe(200);
});

test("POST /auth/login: the correct password clears unfinished attempts of a crashed process", async ({
  email,
}) => {
  await storeUnfinished(email, 4, 60_000);
  expect((await app.login(email)).status).toBe(200);
  expect(await guesses(email, 2)).toEqual([401, 401]);
  expect((await app.login(email)).status).toBe(200);
});

test("POST /auth/login: unfinished attempts of a crashed process do not count as wrong", async ({
  email,
}) => {
  await storeUnfinished(email, 5, 31_000);
  expect((await app.login(email)).status).toBe(200);
  await storeUnfinished(email, 5, 31_000);
  expect(await guesses(email, 5)).toEqual([401, 401, 401, 401, 401]);
  expect((await app.login(email)).status).toBe(423);
});

test("POST /auth/login: at most ten callers wait for attempts in progress to expire", async ({
  email,
}) => {
  await storeUnfinished(email, 5, 28_000);
  expect(await statusesOf(11, () => app.login(email))).toEqual({ 200: 10, 503: 1 });
});

test.each(["reset", "unlock"])(
  "POST /auth/login: a %s restarts the limit of an address and account",
  async (by) => {
    const { id, email, password: old } = await app.addVerifiedUser();
    const owner = app.httpClient();
    await guesses(email, 5, owner);
    expect((await owner.post("/auth/login", { email, password: old })).status).toBe(423);
    if (by === "reset") await app.resetPassword(await app.resetTokenFor(email));
    else await (await app.signInAdmin()).put(`/admin/users/${id}`, { locked: false });
    const password = by === "reset" ? NEW_PASSWORD : old;
    for (const status of [200, 200, 200, 200, 200, 429])
      expect((await owner.post("/auth/login", { email, password })).status).toBe(status);
  },
);

test("POST /auth/login: 100 wrong passwords in a row lock until a mailed reset, and notify the owner once a day", async () => {
  const { id, email } = await app.addVerifiedUser();
  for (let i = 0; i < 2; i++) {
    expect(await guesses(email, 5)).toEqual([401, 401, 401, 401, 401]);
    app.clock.advance("15m");
  }
  await app.sql("update attempts set consecutive = 98 where subject = ? and consecutive = 10", [
    email,
  ]);
  expect(await guesses(email, 2)).toEqual([401, 401]);
  app.clock.advance("20h");
  const locked = await app.login(email);
  expect(locked).toMatchObject({
    status: 423,
    body: { message: expect.stringContaining("reset your password") },
  });
  expect(locked.headers.get("retry-after")).toBeNull();
  const notices = await app.sql(
    "select id from emails where user_id = ? and template = 'account-locked'",
    [id],
  );
  expect(notices).toHaveLength(1);
  expect((await app.resetPassword(await app.resetTokenFor(email))).status).toBe(200);
  expect((await app.login(email, NEW_PASSWORD)).status).toBe(200);
});

test("POST /auth/login: evaluates at most 100 wrong passwords in a row, even concurrently", async ({
  email,
}) => {
  await app.guess(email);
  await app.sql("update attempts set consecutive = 98, failed = 0 where subject = ?", [email]);
  const answers = await Promise.all(times(5, () => app.guess(email)));
  expect(tallyGuesses(answers)).toEqual({ evaluated: 2, refused: 3 });
  const rows = await app.sql("select consecutive from attempts where subject = ?", [email]);
  expect(rows).toEqual([{ consecutive: 100 }]);
});

test("POST /auth/login: an IPv6 /48 may make ten times the requests of a /64", async () => {
  const site = Math.floor(Math.random() * 0xffff).toString(16);
  const register = (i: number) =>
    app.httpClient(`2001:db8:${site}:${i.toString(16)}::1`).post("/auth/register", {});
  expect(await statusesOf(120, register)).toEqual({ 400: 100, 429: 20 });
});
