import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { type TestUser, testApp } from "../app.ts";
import { begin } from "../transaction.ts";
import { tally, times, until } from "../until.ts";

const app = await testApp();
const CHROME =
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36";
const IPHONE =
  "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";

type Account = Awaited<ReturnType<typeof app.signIn>>;
const list = async ({ browser, accessToken }: Account) => (await browser.get("/user/sessions", accessToken)).body;
const profile = async ({ browser, accessToken }: Account) => (await browser.get("/user/profile", accessToken)).status;

async function signInWith(user: TestUser, agent: string): Promise<Account> {
  const browser = app.visitor();
  const { body } = await browser.send("POST", "/auth/login", user.credentials, { "user-agent": agent });
  return { user, browser, accessToken: body.accessToken, refreshToken: body.refreshToken };
}

describe("GET /user/sessions", () => {
  test("names every device, whatever its User-Agent", async () => {
    const user = await app.addUser();
    const long = "x".repeat(1_000);
    for (const agent of ["/", "/1.0 (of nobody)", "Nobody's/1.0", long]) await signInWith(user, agent);
    const sessions = await list(await signInWith(user, CHROME));
    const devices = sessions.map((s: { device: string }) => s.device);
    expect(devices).toEqual(["Chrome on Windows", "x".repeat(200), "Nobody's", "1.0", "Unknown device"]);
  });

  test("answers the bare array with the documented fields, newest first", async () => {
    const user = await app.addUser();
    const first = await signInWith(user, CHROME);
    const second = await signInWith(user, IPHONE);
    const third = await signInWith(user, "curl/8.1");
    const sessions = await list(second);
    expect(sessions.map((s: { device: string }) => s.device)).toEqual(["curl", "Safari on iOS", "Chrome on Windows"]);
    expect(sessions.map((s: { ip: string }) => s.ip)).toEqual([third, second, first].map((a) => a.browser.address));
    expect(sessions[1]).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      device: "Safari on iOS",
      ip: second.browser.address,
      createdAt: expect.stringMatching(/Z$/),
      lastActive: expect.stringMatching(/Z$/),
      current: true,
    });
    expect(sessions.map((s: { current: boolean }) => s.current)).toEqual([false, true, false]);
  });

  test("leaves out what has ended or expired", async () => {
    const user = await app.addUser();
    const old = await app.signIn(user);
    app.clock.advance("7d");
    const [ended, current] = [await app.signIn(user), await app.signIn(user)];
    await ended.browser.post("/auth/logout", undefined, ended.accessToken);
    expect(await list(current)).toHaveLength(1);
    expect(await profile(old)).toBe(401);
  });

  test("shows the last use at most a minute behind, and the address of the last refresh", async () => {
    const account = await app.signIn();
    const other = await app.signIn(account.user);
    for (const pause of ["5m", "61s"] as const) {
      app.clock.advance(pause);
      const usedAt = app.clock.now().getTime();
      expect(await profile(account)).toBe(200);
      const lastActive = await until("the time of the last use", async () => {
        const [, session] = await list(other);
        const at = new Date(session.lastActive).getTime();
        return at >= usedAt - 60_000 ? at : undefined;
      });
      expect(lastActive).toBeLessThanOrEqual(app.clock.now().getTime());
    }
    const elsewhere = app.visitor();
    const cookie = { cookie: `refreshToken=${account.refreshToken}` };
    const { body } = await elsewhere.send("POST", "/auth/refresh", undefined, cookie);
    expect((await app.visitor().get("/user/sessions", body.accessToken)).body[1].ip).toBe(elsewhere.address);
  });

  test("shows the session that asks as active now", async () => {
    const account = await app.signIn();
    app.clock.advance("10m");
    const askedAt = app.clock.now().getTime();
    const [session] = await list(account);
    expect(new Date(session.lastActive).getTime()).toBeGreaterThanOrEqual(askedAt);
  });

  test("keeps a hundred sessions of one user, the oldest goes", async () => {
    const user = await app.addUser();
    const [first, second] = [await app.signIn(user), await app.signIn(user)];
    await app.sql(
      `insert into sessions (id, user_id, rotated_at, device, ip, created_at, last_active_at, expires_at, ends_at)
       select gen_random_uuid(), user_id, rotated_at, device, ip, created_at + n * interval '1 ms', last_active_at, expires_at, ends_at
       from sessions, generate_series(1, 98) n where user_id = ? and id = (select max(id::text)::uuid from sessions where user_id = ?)`,
      [user.id, user.id],
    );
    app.clock.advance("1s");
    const newest = await app.signIn(user);
    expect(await list(newest)).toHaveLength(100);
    expect([await profile(first), await profile(second), await profile(newest)]).toEqual([401, 200, 200]);
  });
});

test("signing in and out a hundred times ends no other session", async () => {
  const user = await app.addUser();
  const kept = await app.signIn(user);
  await app.sql(
    `insert into sessions (id, user_id, rotated_at, device, ip, created_at, last_active_at, expires_at, ends_at, revoked_at)
     select gen_random_uuid(), user_id, rotated_at, device, ip, created_at + n * interval '1 ms', last_active_at, expires_at, ends_at, created_at
     from sessions, generate_series(1, 120) n where user_id = ?`,
    [user.id],
  );
  await app.signIn(user);
  expect(await profile(kept)).toBe(200);
  const rows = await app.sql("select id from sessions where user_id = ?", [user.id]);
  expect(rows).toHaveLength(100);
});

describe("DELETE /user/sessions/:id", () => {
  test("ends one session at once", async () => {
    const user = await app.addUser();
    const [mine, other] = [await app.signIn(user), await app.signIn(user)];
    const target = (await list(mine)).find((session: { current: boolean }) => !session.current);
    const answer = await mine.browser.delete(`/user/sessions/${target.id}`, mine.accessToken);
    expect(answer).toMatchObject({ status: 200, body: { message: expect.any(String) } });
    expect([await profile(mine), await profile(other)]).toEqual([200, 401]);
    expect((await other.browser.post("/auth/refresh")).status).toBe(401);
    expect((await mine.browser.delete(`/user/sessions/${target.id}`, mine.accessToken)).status).toBe(404);
    const events = await app.sql("select details from audit_events where user_id = ? and event = ?", [
      user.id,
      "user.session_revoked",
    ]);
    expect(events).toEqual([{ details: { sessionId: target.id } }]);
  });

  test("ends one's own, which is a logout", async () => {
    const mine = await app.signIn();
    const [{ id }] = await list(mine);
    expect((await mine.browser.delete(`/user/sessions/${id}`, mine.accessToken)).status).toBe(200);
    expect(await profile(mine)).toBe(401);
  });

  test("answers 404 to other people's sessions and to expired ones, and 400 to what is no id", async () => {
    const [mine, theirs] = [await app.signIn(), await app.signIn()];
    const [{ id }] = await list(theirs);
    const [{ id: expired }] = await list(await app.signIn(mine.user));
    await app.sql("update sessions set expires_at = ? where id = ?", [app.clock.now(), expired]);
    for (const unknown of [id, expired, "01890000-0000-7000-8000-000000000000"]) {
      expect(await mine.browser.delete(`/user/sessions/${unknown}`, mine.accessToken)).toMatchObject({
        status: 404,
        body: { code: "NOT_FOUND" },
      });
    }
    expect(await mine.browser.delete("/user/sessions/x", mine.accessToken)).toMatchObject({
      status: 400,
      body: { violations: [{ field: "id" }] },
    });
    expect(await profile(theirs)).toBe(200);
  });
});

describe("DELETE /user/sessions", () => {
  test("ends every session but the one that asks", async () => {
    const user = await app.addUser();
    const [mine, ...others] = [await app.signIn(user), await app.signIn(user), await app.signIn(user)];
    const stranger = await app.signIn();
    expect((await mine.browser.delete("/user/sessions", mine.accessToken)).status).toBe(200);
    expect(await Promise.all([mine, ...others, stranger].map(profile))).toEqual([200, 401, 401, 200]);
    expect(await list(mine)).toHaveLength(1);
    const again = await mine.browser.delete("/user/sessions", mine.accessToken);
    expect(again).toMatchObject({ status: 200, body: { message: "0 other sessions have ended." } });
  });

  test("leaves nothing of a session whose refresh races it", async () => {
    for (let round = 0; round < 5; round++) {
      const user = await app.addUser();
      const [mine, other] = [await app.signIn(user), await app.signIn(user)];
      const cookie = { cookie: `refreshToken=${other.refreshToken}` };
      const [ended, ...racers] = await Promise.all([
        mine.browser.delete("/user/sessions", mine.accessToken),
        ...times(4, () => app.visitor().send("POST", "/auth/refresh", undefined, cookie)),
      ]);
      expect(ended?.status).toBe(200);
      for (const { status, body } of racers) {
        if (status !== 200) continue;
        expect((await app.visitor().get("/user/profile", body.accessToken)).status).toBe(401);
        const next = { cookie: `refreshToken=${body.refreshToken}` };
        expect((await app.visitor().send("POST", "/auth/refresh", undefined, next)).status).toBe(401);
      }
    }
  });
});

const password = "Correct-horse-1";
test.runIf(app.mode !== "embedded").each<[string, string, object?]>([
  ["DELETE", "/user/sessions"],
  ["DELETE", "/user/sessions/:id"],
  ["POST", "/user/change-password", { currentPassword: password, newPassword: "Brand-new-2" }],
  ["POST", "/user/change-email", { newEmail: "elsewhere@example.com", password }],
  ["POST", "/user/delete-account"],
  ["POST", "/auth/setup-totp"],
])("%s %s changes nothing when the session that asks is ended first", async (method, path, body) => {
  const user = await app.addUser();
  const [mine, other] = [await app.signIn(user), await app.signIn(user)];
  const [{ id }] = (await list(mine)).filter(({ current }: { current: boolean }) => !current);
  const account = () =>
    app.sql("select u.*, (select count(*) from one_time_tokens where user_id = u.id) from users u where id = ?", [
      user.id,
    ]);
  const before = await account();
  const end = await begin(app.settings.DATABASE_URL as string, "select 1 from users where id = $1 for no key update", [
    user.id,
  ]);
  const authorization = `Bearer ${mine.accessToken}`;
  const asked = mine.browser.send(method, path.replace(":id", id), body, { authorization });
  await end.toBeWaitedFor();
  await end.run("update sessions set revoked_at = now() where user_id = $1 and id <> $2", [user.id, id]);
  await end.commit();
  expect(await asked).toMatchObject({ status: 401, body: { code: "UNAUTHENTICATED" } });
  expect(await profile(other)).toBe(200);
  expect(await account()).toEqual(before);
});

describe("sessions over gRPC", () => {
  test("are listed and revoked by the same rules", async () => {
    const user = await app.addUser();
    const [mine, theirs] = [await app.signIn(user), await app.signIn()];
    await app.signIn(user);
    const headers = { authorization: `Bearer ${mine.accessToken}` };
    const client = app.grpc(UserService);
    const { sessions } = await client.listSessions({}, { headers });
    expect(tally(sessions, (s) => String(s.current))).toEqual({ true: 1, false: 1 });
    const [{ id: foreign }] = await list(theirs);
    await expect(client.revokeSession({ id: foreign }, { headers })).rejects.toMatchObject({ code: Code.NotFound });
    await client.revokeOtherSessions({}, { headers });
    expect((await client.listSessions({}, { headers })).sessions).toHaveLength(1);
  });
});
