// What e-mails about the security of an account say: when, where, on which device, in which
// language.
import { expect, test } from "vitest";
import { freshEmail, NEW_PASSWORD, newAccount, type SignedIn } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";

const app = await testApp();
const CHROME =
  "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";
const GERMAN_PASSWORD_CHANGED =
  /^Guten Tag Ann Example,\s.*^Wann: .* UTC\s+Wo: .*\s+Gerät: Chrome unter Linux\s.*^Passwort zurücksetzen:\s/ms;

/** Changes the password, in a browser with a User-Agent. */
const changePassword = ({ browser, user, headers }: SignedIn, agent = CHROME) =>
  browser.send(
    "POST",
    "/user/change-password",
    { currentPassword: user.password, newPassword: NEW_PASSWORD },
    { ...headers, "user-agent": agent },
  );

test("POST /user/change-password: the e-mail says when, where and on which device, and leads to a reset", async () => {
  const account = await app.signIn(await app.addVerifiedUser());
  const before = app.clock.now().getTime();
  expect((await changePassword(account)).status).toBe(200);
  const { text = "", html } = await app.mail.emailTo(account.user.email, /password was changed/);
  const [, day, time] = /^When: (.*) at (.*) UTC$/m.exec(text) ?? [];
  const at = Date.parse(`${day} ${time} UTC`);
  expect(Math.abs(at - before)).toBeLessThan(120_000); // it is given in minutes
  expect(text).toContain(`Where: ${account.browser.address}\n`);
  expect(text).toContain("Device: Chrome on Linux\n");
  expect(text).toContain("Reset your password:\nhttp://gatehouse.test/forgot-password\n");
  expect(html).toMatch(/<a [^>]*href="http:\/\/gatehouse\.test\/forgot-password"/);
});

test("PUT /user/profile: e-mails are in the language of the account", async () => {
  const account = await app.signIn(await app.addVerifiedUser());
  await account.put("/user/profile", { locale: "de-ch" });
  await changePassword(account);
  const { text, html } = await app.mail.emailTo(account.user.email, /Passwort wurde geändert/);
  expect(text).toMatch(GERMAN_PASSWORD_CHANGED);
  expect(html).toContain('<html lang="de">');
});

test("POST /auth/register: the first e-mail is in the language of the registration", async () => {
  const { email } = await app.addUser({ locale: "de" });
  const { text } = await app.mail.emailTo(email, /E-Mail-Adresse bestätigen/);
  expect(text).toContain("Der Link funktioniert einmal, 24 Stunden lang.");
});

test("POST /auth/resend-verification: the e-mail says again where the account was registered, not where it was asked for", async () => {
  const account = newAccount({ email: freshEmail() });
  const stranger = app.httpClient();
  const sent = await stranger.send("POST", "/auth/register", account, { "user-agent": CHROME });
  expect(sent.status).toBe(201);
  const rowsOf = (text = "") => text.match(/^(When|Where|Device): .*$/gm);
  const first = await app.mail.emailTo(account.email, /Verify/);
  expect(rowsOf(first.text)).toEqual(
    expect.arrayContaining([`Where: ${stranger.address}`, "Device: Chrome on Linux"]),
  );
  app.clock.advance("10m");
  await app.httpClient().post("/auth/resend-verification", { email: account.email });
  await expect
    .poll(async () => (await app.mail.emailTo(account.email, /Verify/)).token)
    .not.toBe(first.token);
  const again = await app.mail.emailTo(account.email, /Verify/);
  expect(rowsOf(again.text)).toEqual(rowsOf(first.text));
});

test("PUT /admin/users/:id: the e-mail about the owner's second factor does not say where the administrator is", async () => {
  const { user } = await app.setUpFactor(await app.addVerifiedUser());
  const admin = await app.signInAdmin();
  expect((await admin.put(`/admin/users/${user.id}`, { mfaEnabled: false })).status).toBe(200);
  const { text } = await app.mail.emailTo(user.email, /authentication is off/);
  expect(text).toContain("By: an administrator\n");
  expect(text).not.toMatch(/Where:|Device:/);
});

test("POST /user/change-password: the e-mail to an unverified address says nothing about the person", async () => {
  const account = await app.signIn();
  await changePassword(account);
  const { text } = await app.mail.emailTo(account.user.email, /password was changed/);
  expect(text).toMatch(/^Hello,\n.*^When: /ms);
  expect(text).not.toMatch(/Where:|Device:|Ann Example/);
});

test("POST /auth/verify-email: the e-mail to the former address says who has changed it", async () => {
  const user = await app.addVerifiedUser();
  const { post, browser } = await app.signIn(user);
  const newEmail = `new.${user.email}`;
  await post("/user/change-email", { newEmail, password: user.password });
  const { token } = await app.mail.emailTo(newEmail);
  await browser.send("POST", "/auth/verify-email", { token }, { "user-agent": CHROME });
  const { text } = await app.mail.emailTo(user.email, /address was changed/);
  expect(text).toContain(`Where: ${browser.address}\nDevice: Chrome on Linux\n`);
});

test("POST /auth/forgot-password: an e-mail to somebody else does not contain the text of a User-Agent", async () => {
  const { email } = await app.addVerifiedUser();
  const headers = { "user-agent": "Call 0800-evil.example now/1.0 please" };
  await app.httpClient().send("POST", "/auth/forgot-password", { email }, headers);
  const { text, html } = await app.mail.emailTo(email, /Reset your password/);
  expect(text).toContain("Device: unknown\n");
  expect(`${text}${html}`).not.toContain("evil.example");
});
