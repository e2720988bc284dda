import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { PASSWORD } from "../../support/accounts.ts";
import { NEW_PASSWORD } from "../../support/credentials.ts";
import { fillIn, goTo, press, see, seeAlert, seeHeading, submit } from "../../support/web-actions.ts";
import { describeWeb } from "../../support/web-fixture.ts";

describeWeb("Web app: changes of an account", (web) => {
  test("changes password and address, and ends the other sessions", async () => {
    const user = await web.app.addVerifiedUser();
    const { page } = await web.signIn(user);
    const sectionOf = (name: string) => page.getByRole("article").filter({ has: page.getByRole("heading", { name }) });
    await goTo(page, "/security");
    await see(page, /should be changed before/);
    const passwords = { "Current password": user.password, "New password": NEW_PASSWORD };
    await submit(sectionOf("Password"), passwords, "Change password");
    await see(page, "Your password is changed.");
    const newEmail = `new-${user.email}`;
    const address = { "New e-mail address": newEmail, "Current password": NEW_PASSWORD };
    await submit(sectionOf("E-mail address"), address, "Change address");
    await see(page, "Open the link that we sent");
    const mailed = await web.open((await web.app.mail.emailTo(newEmail)).link ?? "");
    await press(mailed.page, "Confirm", "Your address is confirmed.");
    const other = await web.signIn({ email: newEmail, password: NEW_PASSWORD });
    await goTo(other.page, "/sessions");
    await press(other.page, "Sign out all others");
    await expect.poll(() => other.page.locator(".rows > li").count()).toBe(1);
    await goTo(page, "/sessions");
    await see(page.getByRole("dialog"), "Your session has ended");
  });

  test("signs in with a backup code", async () => {
    const { user, post } = await web.app.signIn();
    const { body } = await post("/auth/setup-totp", {});
    const { page } = await web.open("/sign-in");
    await submit(page, { "E-mail address": user.email, Password: user.password }, "Sign in");
    await fillIn(page, { Code: "123456" });
    web.app.clock.advance("6m");
    await press(page, "Verify");
    await seeAlert(page, "took too long");
    await submit(page, { Password: user.password }, "Sign in"); // the address is still there
    await press(page, "Use a backup code");
    await submit(page, { "Backup code": body.backupCodes[0] }, "Verify");
    await seeHeading(page, "Chat");
  });

  test("exports everything, deletes the account, and restores it by signing in", async () => {
    const user = await web.app.addVerifiedUser();
    const { page } = await web.signIn(user);
    await goTo(page, "/data");
    const download = web.name === "Chromium" ? page.waitForEvent("download") : undefined; // Firefox reports none of blobs
    const answer = page.waitForResponse("**/user/export?*");
    await press(page, "Download as JSON");
    expect((await answer).status()).toBe(200);
    const file = await download;
    if (file) expect(JSON.parse(readFileSync(await file.path(), "utf8")).profile.email).toBe(user.email);
    await press(page, "Delete the account");
    await submit(page, { "Current password": user.password }, "Delete my account");
    await see(page, /Your account will be deleted on/);
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    await submit(page, { "E-mail address": user.email, Password: user.password }, "Sign in");
    await see(page, "the deletion of your account is cancelled");
  });

  test("administrators send a failed e-mail again", async () => {
    const user = await web.app.addUser();
    await web.app.failEmailOf(user);
    const { page } = await web.signIn({ email: "root@example.com", password: PASSWORD });
    await goTo(page, `/admin/emails?to=${user.email}`);
    await see(page, "550 no such mailbox");
    await press(page, "Send again", "The e-mail is queued again.");
  });
});
