import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { PASSWORD } from "../../support/accounts.ts";
import { until } from "../../support/until.ts";
import { describeWeb, fillIn, goTo } from "../../support/web-fixture.ts";

describeWeb("Web app: changes of an account", (web) => {
  test("changes password and address, and ends the other sessions", async () => {
    const user = await web.app.addVerifiedUser();
    const { page, problems } = await web.signIn(user);
    await goTo(page, "/security");
    await page.getByText(/should be changed before/).waitFor();
    const password = page.getByRole("article").filter({ has: page.getByRole("heading", { name: "Password" }) });
    await password.getByLabel("Current password").fill(user.password);
    await password.getByLabel("New password").fill("Brand-new-2");
    await password.getByRole("button", { name: "Change password" }).click();
    await page.getByText("Your password is changed.").waitFor();
    const address = page.getByRole("article").filter({ has: page.getByRole("heading", { name: "E-mail address" }) });
    const newEmail = `new-${user.email}`;
    await address.getByLabel("New e-mail address").fill(newEmail);
    await address.getByLabel("Current password").fill("Brand-new-2");
    await address.getByRole("button", { name: "Change address" }).click();
    await page.getByText("Open the link that we sent").waitFor();
    const mailed = await web.open((await web.app.mail.emailTo(newEmail)).link ?? "");
    await mailed.page.getByRole("button", { name: "Confirm" }).click();
    await mailed.page.getByText("Your address is confirmed.").waitFor();
    const other = await web.signIn({ email: newEmail, password: "Brand-new-2" });
    await goTo(other.page, "/sessions");
    await other.page.getByRole("button", { name: "Sign out all others" }).click();
    await expect.poll(() => other.page.locator(".rows > li").count()).toBe(1);
    await goTo(page, "/sessions");
    await page.getByRole("dialog").getByText("Your session has ended").waitFor();
    expect([...problems, ...mailed.problems, ...other.problems]).toEqual([]);
  });

  test("signs in with a backup code", async () => {
    const { user, browser, accessToken } = await web.app.signIn();
    const { body } = await browser.post("/auth/setup-totp", {}, accessToken);
    const { page, problems } = await web.open("/sign-in");
    await fillIn(page, { "E-mail address": user.email, Password: user.password });
    await page.getByRole("button", { name: "Sign in" }).click();
    await fillIn(page, { Code: "123456" });
    web.app.clock.advance("6m");
    await page.getByRole("button", { name: "Verify" }).click();
    await page.getByRole("alert").filter({ hasText: "took too long" }).waitFor();
    await fillIn(page, { Password: user.password }); // the address is still there
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("button", { name: "Use a backup code" }).click();
    await fillIn(page, { "Backup code": body.backupCodes[0] });
    await page.getByRole("button", { name: "Verify" }).click();
    await page.getByRole("heading", { name: "Chat" }).waitFor();
    expect(problems).toEqual([]);
  });

  test("exports everything, deletes the account, and restores it by signing in", async () => {
    const user = await web.app.addVerifiedUser();
    const { page, problems } = await web.signIn(user);
    await goTo(page, "/data");
    const download = web.name === "Chromium" ? page.waitForEvent("download") : undefined; // Firefox reports none of blobs
    const answer = page.waitForResponse("**/user/export?*");
    await page.getByRole("button", { name: "Download as JSON" }).click();
    expect((await answer).status()).toBe(200);
    const file = await download;
    if (file) expect(JSON.parse(readFileSync(await file.path(), "utf8")).profile.email).toBe(user.email);
    await page.getByRole("button", { name: "Delete the account" }).click();
    await page.getByLabel("Current password").fill(user.password);
    await page.getByRole("button", { name: "Delete my account" }).click();
    await page.getByText(/Your account will be deleted on/).waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    await fillIn(page, { "E-mail address": user.email, Password: user.password });
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("the deletion of your account is cancelled").waitFor();
    expect(problems).toEqual([]);
  });

  test("administrators send a failed e-mail again", async () => {
    const user = await web.app.addUser();
    const failed = `update emails set status = 'failed', last_error = '550 no such mailbox'
      where "to" = ? and status = 'sent' returning id`;
    await until("a settled e-mail", async () => (await web.app.sql(failed, [user.email])).length > 0);
    const { page, problems } = await web.signIn({ email: "root@example.com", password: PASSWORD });
    await goTo(page, `/admin/emails?to=${user.email}`);
    await page.getByText("550 no such mailbox").waitFor();
    await page.getByRole("button", { name: "Send again" }).click();
    await page.getByText("The e-mail is queued again.").waitFor();
    expect(problems).toEqual([]);
  });
});
