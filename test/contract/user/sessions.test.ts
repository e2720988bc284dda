import { test as base, expect } from "vitest";
import type { TestUser } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { withToken } from "../../support/http/client.ts";
import { sessionShape } from "../../support/http/responses.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const test = base.extend("user", () => app.addUser());
const CHROME =
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36";
const IPHONE =
  "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";

async function signInWith(user: TestUser, agent: string) {
  const browser = app.httpClient();
  const { body } = await browser.send("POST", "/auth/login", user.credentials, {
    "user-agent": agent,
  });
  return { address: browser.address, ...withToken(browser, body.accessToken) };
}

/** Adds sessions of a user, made after the user's newest one. */
const addSessions = (
  userId: string,
  count: number,
  expiresAt = "expires_at",
  revokedAt = "null::timestamptz",
) =>
  app.sql(
    `insert into sessions (id, user_id, rotated_at, device, ip, created_at, last_active_at, expires_at, ends_at, revoked_at)
     select gen_random_uuid(), user_id, rotated_at, device, ip, created_at + n * interval '1 ms', last_active_at, ${expiresAt},
       ends_at, ${revokedAt}
     from sessions, generate_series(1, ?) n where user_id = ? and id = (select max(id::text)::uuid from sessions where user_id = ?)`,
    [count, userId, userId],
  );

test("GET /user/sessions: names every device, whatever its User-Agent", async ({ user }) => {
  const long = "x".repeat(1_000);
  for (const agent of ["/", "/1.0 (no name)", "Bob's/1.0", long]) await signInWith(user, agent);
  const sessions = await (await signInWith(user, CHROME)).sessions();
  const devices = sessions.map((s: { device: string }) => s.device);
  expect(devices).toEqual(["Chrome on Windows", "x".repeat(200), "Bob's", "1.0", "Unknown device"]);
});

test("GET /user/sessions: returns a bare array with the documented fields, newest first", async ({
  user,
}) => {
  const first = await signInWith(user, CHROME);
  const second = await signInWith(user, IPHONE);
  const third = await signInWith(user, "curl/8.1");
  const sessions = await second.sessions();
  expect(sessions.map((s: { device: string }) => s.device)).toEqual([
    "curl",
    "Safari on iOS",
    "Chrome on Windows",
  ]);
  expect(sessions.map((s: { ip: string }) => s.ip)).toEqual(
    [third, second, first].map((a) => a.address),
  );
  expect(sessions[1]).toEqual(
    sessionShape({ device: "Safari on iOS", ip: second.address, current: true }),
  );
  expect(sessions.map((s: { current: boolean }) => s.current)).toEqual([false, true, false]);
});

test("GET /user/sessions: shows the last use within a minute, the caller's immediately, and the address of the last refresh", async () => {
  const account = await app.signIn();
  const other = await app.signIn(account.user);
  for (const pause of ["5m", "61s"] as const) {
    app.clock.advance(pause);
    const usedAt = app.clock.now().getTime();
    expect(await account.profileStatus()).toBe(200);
    const lastActive = await until("the time of the last use", async () => {
      const [own, session] = await other.sessions();
      expect(new Date(own.lastActive).getTime()).toBeGreaterThanOrEqual(usedAt); // active now
      const at = new Date(session.lastActive).getTime();
      return at >= usedAt - 60_000 ? at : undefined;
    });
    expect(lastActive).toBeLessThanOrEqual(app.clock.now().getTime());
  }
  const elsewhere = app.httpClient().address;
  const { body } = await app.refresh(account.refreshToken, { "x-forwarded-for": elsewhere });
  expect((await app.httpClient().get("/user/sessions", body.accessToken)).body[1].ip).toBe(
    elsewhere,
  );
});

test("GET /user/sessions: keeps a hundred sessions per user, and deletes the oldest", async ({
  user,
}) => {
  const [first, second] = [await app.signIn(user), await app.signIn(user)];
  await addSessions(user.id, 98);
  app.clock.advance("1s");
  const newest = await app.signIn(user);
  expect(await newest.sessions()).toHaveLength(100);
  expect(await Promise.all([first, second, newest].map((each) => each.profileStatus()))).toEqual([
    401, 200, 200,
  ]);
});

test("POST /auth/login: a hundred ended or expired sessions do not displace an open one", async ({
  user,
}) => {
  const kept = await app.signIn(user);
  const half = "case when n % 2 = 0 then";
  await addSessions(
    user.id,
    240,
    `${half} expires_at else created_at end`,
    `${half} created_at end`,
  );
  await app.signIn(user);
  expect(await kept.profileStatus()).toBe(200);
  const rows = await app.sql("select id from sessions where user_id = ?", [user.id]);
  expect(rows).toHaveLength(100);
});
