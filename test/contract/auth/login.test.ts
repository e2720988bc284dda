import { hash } from "@node-rs/argon2";
import { decodeJwt } from "jose";
import { expect, test } from "vitest";
import { freshEmail } from "../../support/accounts.ts";
import { CHEAP, testApp } from "../../support/app.ts";
import { begin, commitMeanwhile } from "../../support/database/transaction.ts";
import { refusal, TEXT } from "../../support/http/responses.ts";
import { statusesOf, tally, times } from "../../support/tally.ts";

const app = await testApp();
const url = app.settings.DATABASE_URL as string;

test("POST /auth/login: returns tokens and user, and sets the refresh cookie", async () => {
  const user = await app.addUser();
  const { status, body, headers } = await app.login(user.email);
  const owner = { id: user.id, email: user.email, name: user.name, role: "user" };
  const wanted = { accessToken: TEXT, refreshToken: TEXT, user: owner, requiresMfa: false };
  expect({ status, body }).toEqual({ status: 200, body: wanted });
  expect(headers.get("set-cookie")).toContain(`refreshToken=${body.refreshToken}; Max-Age=60`);
});

test("POST /auth/login: issues the documented claims", async () => {
  const { user, accessToken, refreshToken } = await app.signIn();
  const access = decodeJwt(accessToken);
  const own = { sub: user.id, email: user.email, role: "user" };
  expect(access).toMatchObject({ ...own, type: "access", iss: "http://gatehouse.test" });
  expect((access.exp ?? 0) - (access.iat ?? 0)).toBe(15 * 60);
  const refresh = decodeJwt(refreshToken);
  expect(refresh).toMatchObject({ sub: user.id, type: "refresh", jti: expect.any(String) });
  expect((refresh.exp ?? 0) - (refresh.iat ?? 0)).toBe(7 * 24 * 3600);
});

test("POST /auth/login: returns the same error for a wrong password and an unknown address", async () => {
  const answers = [];
  for (const email of [(await app.addUser()).email, freshEmail()]) {
    const { status, body, headers } = await app.guess(email);
    answers.push({ status, body, names: [...headers.keys()] });
  }
  const [known, unknown] = answers;
  expect(known).toMatchObject({
    status: 401,
    body: { code: "INVALID_CREDENTIALS", error: "Unauthorized" },
  });
  expect(unknown).toEqual(known);
});

const raced = test.runIf(app.mode !== "embedded"); // with a transaction of another connection

raced.each([
  { what: "the password is changed", changes: "password_changed_at = password_changed_at + '1s'" },
  { what: "a second factor is set up", changes: "mfa_secret = 'sealed'" },
  { what: "the deletion date of the account passes", changes: "deletion_at = '2000-01-01'" },
  {
    what: "the password of an account with a second factor is changed",
    changes: "password_changed_at = now()",
    before: "mfa_secret = 'sealed'",
  },
])(
  "POST /auth/login: fails, and records the failure, if $what before the commit",
  async ({ changes, before = "" }) => {
    const { id, email } = await app.addUser();
    if (before) await app.sql(`update users set ${before} where id = ?`, [id]);
    const change = `update users set ${changes} where id = $1`;
    const response = await commitMeanwhile(url, change, [id], () => app.login(email));
    expect(response).toMatchObject(refusal(401, "INVALID_CREDENTIALS"));
    expect(await app.auditOf(id, "auth.login_failed")).toMatchObject([{ outcome: "failure" }]);
    expect(await app.auditOf(id, "auth.login")).toEqual([]);
  },
);

raced(
  "POST /auth/login: returns role and address as they are when the session starts",
  async () => {
    const user = await app.addUser({ role: "admin" });
    const email = freshEmail();
    const change = "update users set role = 'user', email = $2, canonical_email = $2 where id = $1";
    const { body } = await commitMeanwhile(url, change, [user.id, email], () =>
      app.login(user.email),
    );
    expect(body.user).toEqual({ id: user.id, name: user.name, email, role: "user" });
    expect(decodeJwt(body.accessToken)).toMatchObject({ email, role: "user" });
  },
);

test("POST /auth/login: accepts as many concurrent correct passwords as may wait, even while AI calls are recorded", async () => {
  const { id, email } = await app.addUser();
  let isOver = false;
  const record = async () => {
    const owner = "select id from users where id = $1 for key share";
    while (!isOver) await (await begin(url, owner, [id])).commit();
  };
  const recorders = app.mode === "embedded" ? [] : times(3, record);
  const answers = [];
  for (let round = 0; round < 4; round++)
    answers.push(...(await Promise.all(times(15, () => app.login(email)))));
  isOver = true;
  await Promise.all(recorders);
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 60 });
});

test("POST /auth/login: says that a password has expired, and still signs in", async () => {
  const { email } = await app.addUser();
  app.clock.advance("90d");
  expect((await app.login(email)).body).toMatchObject({
    passwordExpired: true,
    requiresMfa: false,
  });
});

/** A user whose hash has old parameters. */
async function addOutdatedUser() {
  const user = await app.addUser();
  const outdated = await hash(user.password, {
    memoryCost: CHEAP.memoryCost / 2,
    timeCost: 1,
    parallelism: 1,
  });
  await app.sql("update users set password_hash = ? where id = ?", [outdated, user.id]);
  return user;
}

const hashOf = async (userId: string) =>
  (
    await app.sql<{ password_hash: string }>("select password_hash from users where id = ?", [
      userId,
    ])
  )[0]?.password_hash;

test("POST /auth/login: rehashes an old hash with the current parameters, even during concurrent logins", async () => {
  const { id, email } = await addOutdatedUser();
  expect(await statusesOf(4, () => app.login(email))).toEqual({ 200: 4 });
  expect(await hashOf(id)).toMatch(`$argon2id$v=19$m=${CHEAP.memoryCost},t=${CHEAP.timeCost},p=1$`);
  expect((await app.login(email)).status).toBe(200);
});

raced(
  "POST /auth/login: a rehash never overwrites a password that changes before the commit",
  async () => {
    const { id, email } = await addOutdatedUser();
    const change =
      "update users set password_hash = 'new', password_changed_at = now() where id = $1";
    expect((await commitMeanwhile(url, change, [id], () => app.login(email))).status).toBe(401);
    expect(await hashOf(id)).toBe("new");
  },
);
