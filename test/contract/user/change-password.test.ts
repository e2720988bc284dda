import { expect, test } from "vitest";
import type { SignedIn } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";
import { profileStatus } from "../../support/sessions.ts";
import { tallyGuesses, times } from "../../support/until.ts";

const app = await testApp();
const NEW = "Brand-new-2";
const change = ({ browser, accessToken, user }: SignedIn, changes = {}) =>
  browser.post("/user/change-password", { currentPassword: user.password, newPassword: NEW, ...changes }, accessToken);

test("POST /user/change-password: sets the password, keeps this session, ends the others and notifies the user", async () => {
  const account = await app.signIn(await app.addVerifiedUser());
  const other = await app.signIn(account.user);
  expect(await change(account)).toMatchObject({ status: 200, body: { message: expect.any(String) } });
  expect([await profileStatus(account), await profileStatus(other)]).toEqual([200, 401]);
  expect((await account.browser.post("/auth/refresh")).status).toBe(200);
  expect((await other.browser.post("/auth/refresh")).status).toBe(401);
  const { email } = account.user;
  expect((await app.httpClient().post("/auth/login", account.user.credentials)).status).toBe(401);
  expect((await app.httpClient().post("/auth/login", { email, password: NEW })).status).toBe(200);
  expect((await app.mail.emailTo(email, /password was changed/)).html).toContain("Hello Ann Example,");
});

test("POST /user/change-password: five wrong current passwords lock confirmations, not the login", async () => {
  const account = await app.signIn();
  const wrong = () => change(account, { currentPassword: "Wrong-1-guess" });
  for (let i = 0; i < 4; i++) await wrong();
  expect((await change(account, { newPassword: account.user.password })).status).toBe(400); // a correct one restarts the count
  const answers = [];
  for (let i = 0; i < 6; i++) answers.push(await wrong());
  expect(answers.map((a) => a.status)).toEqual([400, 400, 400, 400, 400, 423]);
  expect(answers[0]?.body).toMatchObject({ code: "INVALID_CURRENT_PASSWORD", error: "Bad Request" });
  expect((await change(account)).status).toBe(423);
  expect((await app.httpClient().post("/auth/login", account.user.credentials)).status).toBe(200);
});

test.each([
  ["/user/change-email", { newEmail: "elsewhere@example.com" }],
  ["/user/delete-account", {}],
  ["/auth/setup-totp", {}],
])("POST %s: the sixth wrong password is 423", async (path, body) => {
  const { user, browser, accessToken } = await app.signIn();
  const ask = (password: string) => browser.post(path, { ...body, password }, accessToken);
  for (let i = 0; i < 5; i++) {
    expect(await ask("Wrong-1-guess")).toMatchObject({ status: 400, body: { code: "INVALID_CURRENT_PASSWORD" } });
  }
  expect((await ask(user.password)).status).toBe(423);
});

test("POST /user/change-password: works while guesses of others have locked the login", async () => {
  const account = await app.signIn();
  const { email, password } = account.user;
  for (let i = 0; i < 5; i++) await app.httpClient().post("/auth/login", { email, password: "Wrong-1-guess" });
  expect((await app.httpClient().post("/auth/login", account.user.credentials)).status).toBe(423);
  expect((await change(account)).status).toBe(200);
  const setup = await account.browser.post("/auth/setup-totp", { password: NEW }, account.accessToken);
  expect(setup.status).toBe(200);
  expect((await account.browser.post("/user/delete-account", { password: NEW }, account.accessToken)).status).toBe(200);
  expect(password).not.toBe(NEW);
});

test("POST /user/change-password: evaluates at most five guesses of 30 at once", async () => {
  const account = await app.signIn();
  const answers = await Promise.all(times(30, () => change(account, { currentPassword: "Wrong-1-guess" })));
  expect(tallyGuesses(answers)).toEqual({ evaluated: 5, refused: 25 });
});

test("POST /user/change-password: refuses the same password, weak ones and over-long ones", async () => {
  const account = await app.signIn();
  for (const newPassword of [account.user.password, "weak", `Aa1!${"x".repeat(125)}`]) {
    const answer = await change(account, { newPassword });
    expect(answer).toMatchObject({ status: 400, body: { code: "VALIDATION_FAILED" } });
    expect(answer.body.violations[0].field).toBe("newPassword");
  }
});

test("POST /user/change-password: one of six parallel changes succeeds", async () => {
  const account = await app.signIn();
  const answers = await Promise.all(times(6, (i) => change(account, { newPassword: `${NEW}-${i}` })));
  expect(answers.filter((a) => a.status === 200)).toHaveLength(1);
  expect(answers.filter((a) => a.body.code === "INVALID_CURRENT_PASSWORD")).toHaveLength(5);
});

test("POST /user/change-password: voids mailed links and pending MFA tokens", async () => {
  const account = await setUpFactor(app);
  const { user, browser, accessToken, authenticator } = account;
  await app.httpClient().post("/auth/forgot-password", { email: user.email });
  const newEmail = `new-${user.email}`;
  await browser.post("/user/change-email", { newEmail, password: user.password }, accessToken);
  const [reset, move] = [await app.mail.emailTo(user.email, /Reset/), await app.mail.emailTo(newEmail)];
  const tempToken = await mfaTokenFor(app, user);
  expect((await change(account)).status).toBe(200);
  const refused = { status: 400, body: { code: "TOKEN_INVALID" } };
  const { token } = reset;
  expect(await app.httpClient().post("/auth/reset-password", { token, password: NEW })).toMatchObject(refused);
  expect(await app.httpClient().post("/auth/verify-email", { token: move.token })).toMatchObject(refused);
  const code = await authenticator.code();
  expect((await app.httpClient().post("/auth/verify-mfa", { tempToken, code })).status).toBe(401);
});
