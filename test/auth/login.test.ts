import { randomUUID } from "node:crypto";
import { decodeJwt, decodeProtectedHeader } from "jose";
import { describe, expect, test } from "vitest";
import { testApp } from "../app.ts";
import { begin } from "../transaction.ts";
import { tally, times } from "../until.ts";

const app = await testApp();
const wrong = "Wrong-1-guess";

describe("POST /auth/login", () => {
  test("answers tokens and user, and sets the refresh cookie", async () => {
    const user = await app.addUser();
    const { status, body, headers } = await app.visitor().post("/auth/login", user.credentials);
    expect(status).toBe(200);
    expect(body).toEqual({
      accessToken: expect.any(String),
      refreshToken: expect.any(String),
      user: { id: user.id, email: user.email, name: user.name, role: "user" },
      requiresMfa: false,
    });
    expect(headers.get("set-cookie")).toMatch(
      new RegExp(`^refreshToken=${body.refreshToken}; Max-Age=60[34]\\d{3}; Path=/auth; HttpOnly; SameSite=Strict$`),
    );
    expect(headers.get("cache-control")).toBe("no-store");
  });

  test("issues the documented claims, signed with a published key", async () => {
    const { user, accessToken, refreshToken } = await app.signIn();
    const access = decodeJwt(accessToken);
    expect(access).toMatchObject({
      sub: user.id,
      email: user.email,
      role: "user",
      type: "access",
      iss: "http://gatehouse.test",
    });
    expect((access.exp ?? 0) - (access.iat ?? 0)).toBe(15 * 60);
    const refresh = decodeJwt(refreshToken);
    expect(refresh).toMatchObject({ sub: user.id, type: "refresh", jti: expect.any(String) });
    expect((refresh.exp ?? 0) - (refresh.iat ?? 0)).toBe(7 * 24 * 3600);
    const { body: jwks } = await app.visitor().get("/.well-known/jwks.json");
    const { kid, alg } = decodeProtectedHeader(accessToken);
    expect(alg).toBe("EdDSA");
    expect(jwks.keys.map((key: { kid: string }) => key.kid)).toContain(kid);
    expect(JSON.stringify(jwks)).not.toContain('"d"');
  });

  test("tells wrong password and unknown address alike", async () => {
    const user = await app.addUser();
    const answers = [];
    for (const email of [user.email, `${randomUUID()}@example.com`]) {
      answers.push(await app.visitor().post("/auth/login", { email, password: wrong }));
    }
    const [known, unknown] = answers.map(({ status, body, headers }) => ({
      status,
      body,
      names: [...headers.keys()].filter((name) => name !== "date"),
    }));
    expect(known).toMatchObject({ status: 401, body: { code: "INVALID_CREDENTIALS", error: "Unauthorized" } });
    expect(unknown).toEqual(known);
    expect(known?.names).toContain("www-authenticate");
  });

  test.runIf(app.mode !== "embedded").each([
    ["the password is changed", "password_changed_at = password_changed_at + '1s'"],
    ["a second factor is set up", "mfa_secret = 'sealed'"],
    ["the account's time comes", "deletion_at = '2000-01-01'"],
    ["the password of one with a second factor is changed", "password_changed_at = now()", "mfa_secret = 'sealed'"],
  ])("fails, and says so in the log, where %s meanwhile", async (_, changes, before = "") => {
    const user = await app.addUser();
    if (before) await app.sql(`update users set ${before} where id = ?`, [user.id]);
    const url = app.settings.DATABASE_URL as string;
    const change = await begin(url, `update users set ${changes} where id = $1`, [user.id]);
    const answer = app.visitor().post("/auth/login", user.credentials);
    await change.toBeWaitedFor();
    await change.commit();
    expect(await answer).toMatchObject({ status: 401, body: { code: "INVALID_CREDENTIALS" } });
    const events = await app.sql("select event, outcome from audit_events where user_id = ? order by id desc limit 1", [
      user.id,
    ]);
    expect(events).toEqual([{ event: "auth.login_failed", outcome: "failure" }]);
  });

  test.runIf(app.mode !== "embedded")("tells role and address as they are once the session is open", async () => {
    const user = await app.addUser({ role: "admin" });
    const email = `${randomUUID()}@example.com`;
    const change = await begin(
      app.settings.DATABASE_URL as string,
      "update users set role = 'user', email = $2, canonical_email = $2 where id = $1",
      [user.id, email],
    );
    const answer = app.visitor().post("/auth/login", user.credentials);
    await change.toBeWaitedFor();
    await change.commit();
    const { body } = await answer;
    expect(body.user).toEqual({ id: user.id, name: user.name, email, role: "user" });
    expect(decodeJwt(body.accessToken)).toMatchObject({ email, role: "user" });
  });

  test("evaluates five guesses and no more, however many arrive at once", async () => {
    const user = await app.addUser();
    const visitor = app.visitor();
    const guess = () => visitor.post("/auth/login", { email: user.email, password: wrong });
    const answers = await Promise.all(times(40, guess));
    expect(tally(answers, (a) => a.status)).toEqual({ 401: 5, 423: 35 });
    const [row] = await app.sql<{ n: number }>(
      "select count(*)::int as n from audit_events where user_id = ? and event = 'auth.login_failed'",
      [user.id],
    );
    expect(row?.n).toBe(5);
    const locked = await app.visitor().post("/auth/login", user.credentials);
    expect(locked).toMatchObject({ status: 423, body: { code: "ACCOUNT_LOCKED", error: "Locked" } });
    expect(Number(locked.headers.get("retry-after"))).toBeGreaterThan(890);
    app.clock.advance("15m");
    expect(await app.visitor().post("/auth/login", user.credentials)).toMatchObject({ status: 200 });
  });

  test("evaluates five guesses from 40 addresses, for an account that does not exist as well", async () => {
    const email = `${randomUUID()}@example.com`;
    const answers = await Promise.all(times(40, () => app.visitor().post("/auth/login", { email, password: wrong })));
    expect(tally(answers, (a) => a.status)).toEqual({ 401: 5, 423: 35 });
  });

  test("answers five wrong logins by 401 and the sixth by 423, six good ones by 429", async () => {
    const [victim, regular] = [await app.addUser(), await app.addUser()];
    const [stranger, owner] = [app.visitor(), app.visitor()];
    const [bad, good] = [[] as number[], [] as number[]];
    for (let i = 0; i < 6; i++) {
      bad.push((await stranger.post("/auth/login", { email: victim.email, password: wrong })).status);
    }
    for (let i = 0; i < 5; i++) good.push((await owner.post("/auth/login", regular.credentials)).status);
    const sixth = await owner.post("/auth/login", regular.credentials);
    expect(bad).toEqual([401, 401, 401, 401, 401, 423]);
    expect([...good, sixth.status]).toEqual([200, 200, 200, 200, 200, 429]);
    expect(sixth.body.message).toMatch(/too many login attempts/i);
  });

  test("lets an office behind one address sign in, and counts its twentyfold", async () => {
    const office = app.visitor();
    const users = await Promise.all(times(8, () => app.addUser()));
    const answers = await Promise.all(users.map((user) => office.post("/auth/login", user.credentials)));
    expect(tally(answers, (a) => a.status)).toEqual({ 200: 8 });
    const strangers = await Promise.all(
      times(100, () => office.post("/auth/login", { email: `${randomUUID()}@example.com`, password: wrong })),
    );
    expect(tally(strangers, (a) => a.status)).toEqual({ 401: 92, 429: 8 });
  });

  test("keeps no counters for the accounts that a limited address invents", async () => {
    const flooder = app.visitor();
    const domain = `${randomUUID()}.example.com`;
    const answers = await Promise.all(
      times(120, (i) => flooder.post("/auth/login", { email: `ann${i}@${domain}`, password: wrong })),
    );
    expect(tally(answers, (a) => a.status)).toEqual({ 401: 100, 429: 20 });
    const [kept] = await app.sql<{ n: number }>("select count(*)::int as n from attempts where subject like ?", [
      `%@${domain}`,
    ]);
    expect(kept?.n).toBe(100);
  });

  test("signs everybody in when right passwords arrive at once", async () => {
    const user = await app.addUser();
    const answers = await Promise.all(times(20, () => app.visitor().post("/auth/login", user.credentials)));
    expect(tally(answers, (a) => a.status)).toEqual({ 200: 20 });
  });

  test("starts the count anew with a success, and an hour after the last failure", async () => {
    const user = await app.addUser();
    const guess = async (password: string) =>
      (await app.visitor().post("/auth/login", { email: user.email, password })).status;
    for (let i = 0; i < 4; i++) expect(await guess(wrong)).toBe(401);
    expect(await guess(user.password)).toBe(200);
    for (let i = 0; i < 4; i++) expect(await guess(wrong)).toBe(401);
    app.clock.advance("1h");
    expect(await guess(wrong)).toBe(401);
    expect(await guess(user.password)).toBe(200);
  });

  test("is not kept locked by attempts while it is locked", async () => {
    const user = await app.addUser();
    const guess = () => app.visitor().post("/auth/login", { email: user.email, password: wrong });
    for (let i = 0; i < 5; i++) await guess();
    app.clock.advance("14m");
    const locked = await guess();
    expect(locked.status).toBe(423);
    expect(Number(locked.headers.get("retry-after"))).toBeLessThanOrEqual(60);
    app.clock.advance("61s");
    expect(await app.visitor().post("/auth/login", user.credentials)).toMatchObject({ status: 200 });
  });

  test("forgets guesses whose process died once the right password is given", async () => {
    const user = await app.addUser();
    const someTimeAgo = new Date(app.clock.now().getTime() - 60_000);
    await app.sql("insert into attempts (kind, subject, reserved, reserved_at) values ('password', ?, 4, ?)", [
      user.email,
      someTimeAgo,
    ]);
    expect((await app.visitor().post("/auth/login", user.credentials)).status).toBe(200);
    const guess = () => app.visitor().post("/auth/login", { email: user.email, password: wrong });
    expect([(await guess()).status, (await guess()).status]).toEqual([401, 401]);
    expect((await app.visitor().post("/auth/login", user.credentials)).status).toBe(200);
  });

  test("counts guesses as wrong whose process has died over them", async () => {
    const user = await app.addUser();
    const guessedAt = new Date(app.clock.now().getTime() - 31_000);
    await app.sql("insert into attempts (kind, subject, reserved, reserved_at) values ('password', ?, 5, ?)", [
      user.email,
      guessedAt,
    ]);
    expect((await app.visitor().post("/auth/login", user.credentials)).status).toBe(423);
    app.clock.advance("15m");
    expect((await app.visitor().post("/auth/login", user.credentials)).status).toBe(200);
  });

  test("refuses a password of over 128 characters before any hashing", async () => {
    const user = await app.addUser();
    const answer = await app.visitor().post("/auth/login", { email: user.email, password: "x".repeat(129) });
    expect(answer).toMatchObject({ status: 400, body: { violations: [{ field: "password" }] } });
  });

  test("says that the password is old, and still signs in", async () => {
    const user = await app.addUser();
    app.clock.advance("90d");
    expect((await app.visitor().post("/auth/login", user.credentials)).body).toMatchObject({
      passwordExpired: true,
      requiresMfa: false,
    });
  });
});
