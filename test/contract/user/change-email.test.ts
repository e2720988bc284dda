import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import type { SignedIn } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { invalid, refusal } from "../../support/http/responses.ts";
import { statusesOf, tally } from "../../support/tally.ts";

const app = await testApp();
const fresh = () => `New.${randomUUID()}@example.com`;
const ask = ({ post, user: { password } }: SignedIn, newEmail: string) =>
  post("/user/change-email", { newEmail, password });
const { verifyEmail: verify } = app;

test("POST /user/change-email: takes effect with the mailed token, and notifies the old address twice", async () => {
  const account = await app.signIn();
  const { email } = account.user;
  await app.guess(email);
  const newEmail = fresh();
  expect(await ask(account, newEmail)).toMatchObject({
    status: 200,
    body: { message: expect.any(String) },
  });
  const profile = async () => (await account.get("/user/profile")).body;
  expect(await profile()).toMatchObject({ email, emailVerified: false });
  expect((await app.mail.emailTo(email, /new e-mail address was requested/)).text).toContain(
    newEmail,
  );
  const { token, link } = await app.mail.emailTo(newEmail, /Verify your new/);
  expect(link).toBe(`http://gatehouse.test/verify-email#token=${token}`);
  expect((await verify(token)).status).toBe(200);
  expect(await app.sql("select 1 from attempts where subject = ?", [email])).toEqual([]);
  expect((await verify(token)).status).toBe(400);
  expect(await profile()).toMatchObject({ email: newEmail, emailVerified: true });
  await app.mail.emailTo(email, /e-mail address was changed/);
  expect([(await app.login(email)).status, (await app.login(newEmail)).status]).toEqual([401, 200]);
});

test("POST /user/change-email: does not reveal that an address is taken, and notifies its owner; rejects the current address", async () => {
  const [account, other] = [await app.signIn(), await app.addUser()];
  const first = fresh();
  const free = await ask(account, first);
  const { token } = await app.mail.emailTo(first);
  const taken = await ask(account, other.email.toUpperCase());
  expect((await verify(token)).status).toBe(400); // as after a request for a free address
  expect(taken).toMatchObject({ status: 200, body: free.body });
  expect(
    (await app.mail.emailTo(other.email, /entered for another account/)).token,
  ).toBeUndefined();
  const { body } = await account.get("/user/export");
  expect(tally(body.emails as { to: string }[], ({ to }) => to)).toEqual({
    [account.user.email]: 3,
  });
  for (const refused of [` ${account.user.email} `, "not-an-address"])
    expect(await ask(account, refused)).toMatchObject(invalid("newEmail"));
});

test("POST /user/change-email: accepts three requests an hour, even concurrently", async () => {
  const account = await app.signIn();
  expect(await statusesOf(10, () => ask(account, fresh()))).toEqual({ 200: 3, 429: 7 });
  const refused = await ask(account, fresh());
  expect(refused.body.code).toBe("RATE_LIMITED");
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(3_500);
  app.clock.advance("1h");
  expect((await ask(await app.signIn(account.user), fresh())).status).toBe(200);
});

test("POST /user/change-email: one of two accounts that verify the same address gets it, and the older link is invalid", async () => {
  const [first, second] = [await app.signIn(), await app.signIn()];
  const newEmail = fresh();
  const tokens = [];
  for (const account of [first, second]) {
    await ask(account, newEmail);
    await expect
      .poll(async () => (await app.mail.emailsTo(newEmail)).length)
      .toBe(tokens.length + 1);
    tokens.push((await app.mail.emailTo(newEmail)).token);
  }
  const answers = await Promise.all(tokens.map(verify));
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 1, 409: 1 });
  await ask(first, fresh());
  expect((await verify(tokens[0])).status).toBe(400);
});

test("POST /user/change-email: invalidates reset links mailed to the old address", async () => {
  const account = await app.signIn();
  const old = await app.resetTokenFor(account.user.email);
  const newEmail = fresh();
  await ask(account, newEmail);
  expect((await verify((await app.mail.emailTo(newEmail)).token)).status).toBe(200);
  expect(await app.resetPassword(old)).toMatchObject(refusal(400, "TOKEN_INVALID"));
});
