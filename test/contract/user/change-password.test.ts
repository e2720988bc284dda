import { test as base, expect } from "vitest";
import { NEW_PASSWORD as NEW, type SignedIn, WRONG_PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { fieldsIn, refusal } from "../../support/http/responses.ts";
import { tallyGuesses, times } from "../../support/tally.ts";

const app = await testApp();
const test = base.extend("account", () => app.signIn());
const change = ({ post, user }: SignedIn, newPassword = NEW, currentPassword = user.password) =>
  post("/user/change-password", { currentPassword, newPassword });
const guess = (account: SignedIn) => change(account, NEW, WRONG_PASSWORD);

test("POST /user/change-password: sets the password, keeps this session, ends the others and notifies the user", async () => {
  const account = await app.signIn(await app.addVerifiedUser());
  const other = await app.signIn(account.user);
  expect(await change(account)).toMatchObject({
    status: 200,
    body: { message: expect.any(String) },
  });
  expect([await account.profileStatus(), await other.profileStatus()]).toEqual([200, 401]);
  expect((await account.browser.post("/auth/refresh")).status).toBe(200);
  expect((await other.browser.post("/auth/refresh")).status).toBe(401);
  const { email } = account.user;
  expect([(await app.login(email)).status, (await app.login(email, NEW)).status]).toEqual([
    401, 200,
  ]);
  expect((await app.mail.emailTo(email, /password was changed/)).html).toContain(
    "Hello Ann Example,",
  );
});

test("POST /user/change-password: five wrong passwords lock confirmations, not the login", async ({
  account,
}) => {
  for (let i = 0; i < 4; i++) await guess(account);
  expect((await change(account, account.user.password)).status).toBe(400); // a correct one restarts the count
  for (const status of [400, 400, 400, 400, 400, 423])
    expect((await guess(account)).status).toBe(status);
  expect((await change(account)).status).toBe(423);
  expect((await app.login(account.user.email)).status).toBe(200);
});

test.each([
  ["/user/change-email", { newEmail: "elsewhere@example.com" }],
  ["/user/delete-account", {}],
  ["/auth/setup-totp", {}],
])("POST %s: the sixth wrong password is 423", async (path, body) => {
  const { user, post } = await app.signIn();
  const ask = (password: string) => post(path, { ...body, password });
  const refused = refusal(400, "INVALID_CURRENT_PASSWORD");
  for (let i = 0; i < 5; i++) expect(await ask(WRONG_PASSWORD)).toMatchObject(refused);
  expect((await ask(user.password)).status).toBe(423);
});

test("POST /user/change-password: works while wrong guesses have locked the login", async ({
  account,
}) => {
  const { email } = account.user;
  await app.lock(email);
  expect((await app.login(email)).status).toBe(423);
  expect((await change(account)).status).toBe(200);
  for (const path of ["/auth/setup-totp", "/user/delete-account"])
    expect((await account.post(path, { password: NEW })).status).toBe(200);
});

test("POST /user/change-password: evaluates at most five of 30 concurrent guesses", async ({
  account,
}) => {
  const answers = await Promise.all(times(30, () => guess(account)));
  expect(tallyGuesses(answers)).toEqual({ evaluated: 5, refused: 25 });
});

test("POST /user/change-password: rejects the same password, weak ones and overlong ones", async ({
  account,
}) => {
  for (const newPassword of [account.user.password, "weak", `Aa1!${"x".repeat(125)}`]) {
    const answer = await change(account, newPassword);
    expect(answer).toMatchObject(refusal(400, "VALIDATION_FAILED"));
    expect(fieldsIn(answer)).toEqual(["newPassword"]);
  }
});

test("POST /user/change-password: one of six concurrent changes succeeds", async ({ account }) => {
  const answers = await Promise.all(times(6, (i) => change(account, `${NEW}-${i}`)));
  expect(answers.filter((a) => a.status === 200)).toHaveLength(1);
  expect(answers.filter((a) => a.body.code === "INVALID_CURRENT_PASSWORD")).toHaveLength(5);
});

test("POST /user/change-password: invalidates mailed links and pending MFA tokens", async () => {
  const account = await app.setUpFactor(await app.addVerifiedUser());
  const { user, post, authenticator } = account;
  const reset = await app.resetTokenFor(user.email);
  const newEmail = `new-${user.email}`;
  await post("/user/change-email", { newEmail, password: user.password });
  const { token } = await app.mail.emailTo(newEmail);
  const tempToken = await app.mfaTokenFor(user);
  expect((await change(account)).status).toBe(200);
  const refused = refusal(400, "TOKEN_INVALID");
  expect(await app.resetPassword(reset)).toMatchObject(refused);
  expect(await app.verifyEmail(token)).toMatchObject(refused);
  expect((await app.verifyMfa(tempToken, { code: await authenticator.code() })).status).toBe(401);
});
