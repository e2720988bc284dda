import { randomUUID } from "node:crypto";
import { decodeJwt, decodeProtectedHeader } from "jose";
import { expect, test } from "vitest";
import { auditOf } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";
import { begin, commitMeanwhile } from "../../support/transaction.ts";
import { tally, times } from "../../support/until.ts";

const app = await testApp();
const wrong = "Wrong-1-guess";

test("POST /auth/login: returns tokens and user, and sets the refresh cookie", async () => {
  const user = await app.addUser();
  const { status, body, headers } = await app.httpClient().post("/auth/login", user.credentials);
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

test("POST /auth/login: issues the documented claims, signed with a published key", async () => {
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
  const { body: jwks } = await app.httpClient().get("/.well-known/jwks.json");
  const { kid, alg } = decodeProtectedHeader(accessToken);
  expect(alg).toBe("EdDSA");
  expect(jwks.keys.map((key: { kid: string }) => key.kid)).toContain(kid);
  expect(JSON.stringify(jwks)).not.toContain('"d"');
});

test("POST /auth/login: answers a wrong password and an unknown address alike", async () => {
  const user = await app.addUser();
  const answers = [];
  for (const email of [user.email, `${randomUUID()}@example.com`]) {
    answers.push(await app.httpClient().post("/auth/login", { email, password: wrong }));
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

const raced = test.runIf(app.mode !== "embedded"); // with a transaction of another connection

raced.each([
  ["the password is changed", "password_changed_at = password_changed_at + '1s'"],
  ["a second factor is set up", "mfa_secret = 'sealed'"],
  ["the deletion date of the account passes", "deletion_at = '2000-01-01'"],
  ["the password is changed beside a second factor", "password_changed_at = now()", "mfa_secret = 'sealed'"],
])("POST /auth/login: fails and records it if %s before the commit", async (_, changes, before = "") => {
  const user = await app.addUser();
  if (before) await app.sql(`update users set ${before} where id = ?`, [user.id]);
  const change = `update users set ${changes} where id = $1`;
  const login = () => app.httpClient().post("/auth/login", user.credentials);
  const response = await commitMeanwhile(app.settings.DATABASE_URL as string, change, [user.id], login);
  expect(response).toMatchObject({ status: 401, body: { code: "INVALID_CREDENTIALS" } });
  expect(await auditOf(app, user.id, "auth.login_failed")).toMatchObject([{ outcome: "failure" }]);
  expect(await auditOf(app, user.id, "auth.login")).toEqual([]);
});

raced("POST /auth/login: returns role and address as of the moment the session opens", async () => {
  const user = await app.addUser({ role: "admin" });
  const email = `${randomUUID()}@example.com`;
  const change = "update users set role = 'user', email = $2, canonical_email = $2 where id = $1";
  const login = () => app.httpClient().post("/auth/login", user.credentials);
  const { body } = await commitMeanwhile(app.settings.DATABASE_URL as string, change, [user.id, email], login);
  expect(body.user).toEqual({ id: user.id, name: user.name, email, role: "user" });
  expect(decodeJwt(body.accessToken)).toMatchObject({ email, role: "user" });
});

test("POST /auth/login: accepts as many correct passwords at once as requests may wait, also while AI calls are recorded", async () => {
  const user = await app.addUser();
  let isOver = false;
  const record = async () => {
    const owner = "select id from users where id = $1 for key share";
    while (!isOver) await (await begin(app.settings.DATABASE_URL as string, owner, [user.id])).commit();
  };
  const recorders = app.mode === "embedded" ? [] : times(3, record);
  const answers = [];
  for (let round = 0; round < 4; round++) {
    answers.push(...(await Promise.all(times(15, () => app.httpClient().post("/auth/login", user.credentials)))));
  }
  isOver = true;
  await Promise.all(recorders);
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 60 });
});

test("POST /auth/login: reports an old password, and still signs in", async () => {
  const user = await app.addUser();
  app.clock.advance("90d");
  expect((await app.httpClient().post("/auth/login", user.credentials)).body).toMatchObject({
    passwordExpired: true,
    requiresMfa: false,
  });
});
