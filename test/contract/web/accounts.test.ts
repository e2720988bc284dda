import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { NEW_PASSWORD, PASSWORD } from "../../support/accounts.ts";
import {
  chooseLanguage,
  describeWeb,
  enter,
  expectAccessible,
  fillIn,
  goTo,
  press,
  see,
  seeAlert,
  seeHeading,
  shown,
  signOut,
  submit,
} from "../../support/browser.ts";

describeWeb("Web app: accounts", {}, (web) => {
  test("a new user registers, verifies the address, signs in, edits the profile and signs out", async () => {
    const context = await web.newBrowser();
    const tab = await web.open("/register", context);
    const { page } = tab;
    await expectAccessible(tab);
    await press(page, "Create an account", "Enter a valid");
    await see(page, "Please accept the terms of use.");
    await fillIn(page, { Password: "Password" });
    await page.getByText("A digit not met yet").waitFor();
    await fillIn(page, { "E-mail address": "ann" });
    await page.getByText("Enter a valid").waitFor({ state: "detached" });
    const email = "ann.web@example.com";
    await page.getByLabel("I accept the terms of use.").check();
    const account = { Name: "Ann", "E-mail address": email, Password: PASSWORD };
    await submit(page, account, "Create an account", "Your account is ready.");
    await see(page, email);

    const { link = "" } = await web.app.mail.emailTo(email);
    const mailed = await web.open(link, context);
    await press(mailed.page, "Verify", "Your address is verified.");
    expect(mailed.page.url()).toBe(`${web.app.url}/verify-email`);
    await mailed.page.reload();
    const [, token = ""] = link.split("#token=");
    await submit(
      mailed.page,
      { Token: token },
      "Verify",
      "invalid, has expired or was already used",
    );

    await press(page, "Sign in");
    await submit(page, { "E-mail address": email, Password: "wrong" }, "Sign in");
    await seeAlert(page, "The e-mail address or the password is wrong.");
    await submit(page, { Password: PASSWORD }, "Sign in");
    await goTo(page, "/account/profile");
    await page.getByText("verified", { exact: true }).waitFor();
    await submit(page, { Name: "Ann Example" }, "Save", "Saved.");
    await page.reload();
    await page.getByText("Ann Example").first().waitFor();
    await expectAccessible(tab);
    await signOut(page);
    await seeHeading(page, "Sign in");
  });

  test("the link for a forgotten password sets a new one", async () => {
    const { email } = await web.app.addUser();
    const form = await web.open("/forgot-password");
    await submit(
      form.page,
      { "E-mail address": email },
      "Send the link",
      "we have sent an e-mail with a link to",
    );
    const { link = "" } = await web.app.mail.emailTo(email, /Reset/);
    const { page } = await web.open(link);
    const set = "Set the password";
    await submit(page, { "New password": "lowercase" }, set, "A digit not met yet");
    const field = page.getByLabel("New password", { exact: true });
    expect(await field.getAttribute("aria-invalid")).toBe("true");
    await submit(page, { "New password": NEW_PASSWORD }, set, "Your password has been changed.");
    expect((await web.app.login(email, NEW_PASSWORD)).status).toBe(200);
    await goTo(page, "/reset-password");
    await page.reload();
    const again = { Token: ` ${link.split("#token=")[1]}`, "New password": "Brand-new-3" };
    await submit(page, again, set, "invalid, has expired or was already used");
    await page.getByRole("link", { name: "Request a new link" }).click();
    await seeHeading(page, "Reset your password");
  });

  test("an invitation page welcomes the user, and the password that is set there signs in", async () => {
    const admin = await web.app.signInAdmin();
    const email = `invited.${Date.now()}@example.com`;
    const invited = await admin.post("/admin/users", { email, name: "Bea" });
    expect(invited.status).toBe(201);
    const { link = "" } = await web.app.mail.emailTo(email, /invited/);
    const tab = await web.open(link);
    const { page } = tab;
    await seeHeading(page, "Welcome to Gatehouse");
    await expectAccessible(tab);
    expect(page.url()).toBe(`${web.app.url}/reset-password?invitation`);
    await submit(page, { "New password": NEW_PASSWORD }, "Accept the invitation");
    await see(page, "Your account is ready.");
    await press(page, "Sign in");
    await enter(page, { email, password: NEW_PASSWORD });
    await seeHeading(page, "Chat");
  });

  test("an unknown page and violations are shown in German", async () => {
    const { page } = await web.signInUser();
    await goTo(page, "/nowhere");
    await see(page, "There is no such page.");
    await chooseLanguage(page, "Deutsch");
    await see(page, "Diese Seite gibt es nicht.");
    expect(await page.getAttribute("html", "lang")).toBe("de");
    await goTo(page, "/account/profile");
    await fillIn(page, { "Über Sie": "x".repeat(1001) });
    await press(page, "Speichern", "Geben Sie höchstens 1000 Zeichen ein.");
  });

  test("the chosen language is stored with the account, and used for e-mails and other browsers", async () => {
    const user = await web.app.addVerifiedUser();
    const { page } = await web.signIn(user);
    const localeOf = () => web.app.sql("select locale from users where id = ?", [user.id]);
    expect(await localeOf()).toEqual([{ locale: null }]);
    await chooseLanguage(page, "Deutsch");
    await expect.poll(localeOf).toEqual([{ locale: "de" }]);
    const other = await web.signIn(user); // nothing has been chosen in this browser
    await expect.poll(() => other.page.getAttribute("html", "lang")).toBe("de");
    await web.app.httpClient().post("/auth/forgot-password", { email: user.email });
    await web.app.mail.emailTo(user.email, /Passwort zurücksetzen/);
  });

  test("a user changes password and address, and ends the other sessions", async () => {
    const user = await web.app.addVerifiedUser();
    const { page } = await web.signIn(user);
    const sectionOf = (name: string) =>
      page.getByRole("article").filter({ has: page.getByRole("heading", { name: shown(name) }) });
    await goTo(page, "/account/security");
    await see(page, /Please change it before/);
    const passwords = { "Current password": user.password, "New password": NEW_PASSWORD };
    await submit(sectionOf("Password"), passwords, "Change password");
    await see(page, "Your password has been changed.");
    const newEmail = `new-${user.email}`;
    const address = { "New e-mail address": newEmail, "Current password": NEW_PASSWORD };
    await submit(sectionOf("E-mail address"), address, "Change address");
    await see(page, "Open the link that we have sent");
    const mailed = await web.open((await web.app.mail.emailTo(newEmail)).link ?? "");
    await press(mailed.page, "Verify", "Your address is verified.");
    const other = await web.signIn({ email: newEmail, password: NEW_PASSWORD });
    await goTo(other.page, "/account/sessions");
    await press(other.page, "Sign out all others");
    const sessions = other.page.locator(".rows").first(); // devices follow
    await expect.poll(() => sessions.locator("> li").count()).toBe(1);
    await goTo(page, "/account/sessions");
    await see(page.getByRole("dialog"), "Your session has ended");
  });

  test("a backup code signs in", async () => {
    const { user, post } = await web.app.signIn();
    const { body } = await post("/auth/setup-totp", {});
    const { page } = await web.open("/sign-in");
    await enter(page, user);
    await fillIn(page, { Code: "123456" }); // the sixth digit submits
    await seeAlert(page, "The code is wrong");
    web.app.clock.advance("6m");
    await press(page, "Verify");
    await seeAlert(page, "took too long");
    await submit(page, { Password: user.password }, "Sign in"); // the address is still there
    await press(page, "Use a backup code");
    await submit(page, { "Backup code": body.backupCodes[0] }, "Verify");
    await seeHeading(page, "Chat");
  });

  test("a user exports everything, deletes the account, and restores it by signing in", async () => {
    const user = await web.app.addVerifiedUser();
    const { page } = await web.signIn(user);
    await goTo(page, "/account/data");
    const download = web.name === "Chromium" ? page.waitForEvent("download") : undefined; // Firefox reports none of blobs
    const answer = page.waitForResponse("**/user/export?*");
    await press(page, "Download as JSON");
    expect((await answer).status()).toBe(200);
    const file = await download;
    if (file)
      expect(JSON.parse(readFileSync(await file.path(), "utf8")).profile.email).toBe(user.email);
    await press(page, "Delete the account");
    await submit(page, { "Current password": user.password }, "Delete my account");
    await see(page, /Your account will be deleted on/);
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    await enter(page, user);
    await see(page, "Your account will not be deleted.");
  });
});
