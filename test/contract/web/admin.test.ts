import { beforeEach, expect, test } from "vitest";
import { PASSWORD } from "../../support/accounts.ts";
import {
  describeWeb,
  expectAccessible,
  goTo,
  openPage,
  press,
  see,
  seeAlert,
  seeHeading,
  shown,
  submit,
} from "../../support/browser.ts";

/** A busy page: its observers receive the changes of 300 ms together. */
const LATE_OBSERVERS = `window.IntersectionObserver = class extends IntersectionObserver {
  constructor(callback, options) {
    const waiting = [];
    super((changes) => {
      if (waiting.push(...changes) === changes.length) setTimeout(() => callback(waiting.splice(0)), 300);
    }, options);
  }
}`;

describeWeb("Web app: administration", {}, (web) => {
  beforeEach(() => web.app.clock.advance("61s")); // the administrator may sign in ten times a minute

  test("the pages show today's numbers, users, events, e-mails and usage", async () => {
    await web.app.addUser();
    const tab = await web.signInAdmin();
    const { page } = tab;
    await openPage(page, "/admin", "Overview");
    await page.getByRole("link", { name: "Sign-ins", exact: true }).waitFor();
    await page.getByText("Database", { exact: true }).waitFor();
    for (const [path, heading, content] of [
      ["/admin", "Overview", "Version"],
      ["/admin/users", "Users", "root@example.com"],
      ["/admin/audit-log?event=auth.register", "Audit log", "registered"],
      ["/admin/emails", "E-mails", "Verify your e-mail address"],
      ["/admin/usage", "Usage", "30 days"],
      ["/admin/webhooks", "Webhooks", "There are no webhooks yet."],
      ["/admin/budgets", "Budgets", "Nothing to show."],
      ["/admin/providers", "Providers", "model-a-1"],
    ] as const) {
      await openPage(page, path, heading);
      await page.getByText(shown(content)).first().waitFor();
    }
    await openPage(page, "/admin/audit-log", "Audit log");
    await page.getByText(/^sealed /).click();
    await see(page, /audit:verify -- --head \d+:[0-9a-f]{64}/);
    await goTo(page, "/admin/audit-log?userId=0192");
    await seeAlert(page, "userId: enter a complete ID");
  });

  test("an administrator finds, edits, unlocks and impersonates a user, sees a banner, and comes back", async () => {
    const user = await web.app.addVerifiedUser({ name: "Berta", email: "berta@example.com" });
    await web.app.lock(user.email);
    const tab = await web.signInAdmin();
    const { page } = tab;
    const refused: string[] = [];
    page.on("response", (response) => response.status() === 400 && refused.push(response.url()));
    await openPage(page, "/admin/users", "Users");
    await page.getByRole("searchbox").fill(user.email.slice(0, 12));
    await page.getByRole("link", { name: user.email }).click();
    await page.waitForURL(`**/admin/users/${user.id}`);
    await submit(page, { Name: "Berta Example" }, "Save", "Saved.");
    await press(page, "Unlock", "Unlocked.");
    expect((await web.app.login(user.email)).status).toBe(200);
    await expectAccessible(tab);
    await press(page, "Sign in as this user");
    const reason = { "Reason, for the audit log": "A question about an invoice" };
    await submit(page.getByRole("dialog"), reason, "Sign in as this user");
    const banner = page.getByText(`root@example.com is acting as ${user.email}.`);
    await banner.waitFor();
    await openPage(page, "/account/profile", "Profile");
    await page.getByText(user.email, { exact: true }).first().waitFor();
    await page.setViewportSize({ width: 375, height: 300 });
    await page.evaluate("scrollTo(0, document.body.scrollHeight)");
    expect((await banner.boundingBox())?.y, "the banner stays in sight").toBeGreaterThanOrEqual(0);
    await press(page, "Back to your account");
    await page.setViewportSize({ width: 1280, height: 720 });
    await banner.waitFor({ state: "detached" });
    await goTo(page, `/admin/users/${user.id}?tab=audit`);
    await page.getByText("signed in as").first().waitFor();
    await openPage(page, `/admin/audit-log?userId=${user.id}`, "Audit log");
    await page.getByRole("link", { name: "Berta Example" }).first().click();
    await seeHeading(page, user.email);
    await openPage(page, "/admin", "Overview");
    expect(refused, "the page of a user asks for no other one when it is left").toEqual([]);
  });

  test("a change of role asks for the administrator's own password", async () => {
    const user = await web.app.addVerifiedUser();
    const tab = await web.signInAdmin();
    const { page } = tab;
    const ownPassword = page.getByLabel("Your own password, to change the role");
    await openPage(page, `/admin/users/${user.id}`, user.email);
    expect(await ownPassword.count()).toBe(0);
    await page.getByLabel("Role").selectOption("Administrator");
    await press(page, "Save");
    await page.locator("input[name=password][aria-invalid=true]").waitFor();
    await ownPassword.fill(PASSWORD);
    await press(page, "Save", "Saved.");
    await ownPassword.waitFor({ state: "detached" });
    expect((await web.app.login(user.email)).body.user.role).toBe("admin");
  });

  test("lists grow while scrolling, and a search beyond 20,000 rows continues with a button", async () => {
    await web.app.sql(`insert into users (id, email, canonical_email, name, password_hash, password_changed_at,
      terms_accepted_at, created_at, updated_at) select ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid,
      i || '@list.test', i || '@list.test', 'Listed', 'x', now(), now(), now(), now() from generate_series(1, 20100) i`);
    const browser = await web.newBrowser();
    await browser.addInitScript(LATE_OBSERVERS);
    const tab = await web.signInAdmin(browser);
    const { page } = tab;
    await web.app.sql(`insert into ai_usage (id, user_id, provider, model, outcome, created_at)
      select id, id, 'provider-a', 'model-a-1', 'success', now() from users where name = 'Listed' limit 5100`);
    await openPage(page, "/admin", "Overview");
    await page.getByRole("article").filter({ hasText: "AI calls" }).getByText("5,100").waitFor();
    await openPage(page, "/admin/users", "Users");
    const rows = page.locator("tbody > tr");
    await expect.poll(() => rows.count()).toBeGreaterThanOrEqual(50);
    for (let before = await rows.count(); before < 300; before = await rows.count()) {
      await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)");
      await expect.poll(() => rows.count()).toBeGreaterThan(before);
    }
    await page.getByRole("searchbox").fill("qx");
    await press(page, "Keep searching");
    await page.getByRole("button", { name: "Keep searching" }).waitFor({ state: "detached" });
    await see(page, "Nothing matches these filters.");
  });

  test("an invited user is in the list immediately", async () => {
    const tab = await web.signInAdmin();
    const { page } = tab;
    await openPage(page, "/admin/users", "Users");
    await press(page, "Invite a user");
    await expectAccessible(tab);
    const dialog = page.getByRole("dialog");
    await submit(dialog, { "E-mail address": "no address", Name: "Ida" }, "Send the invitation");
    await see(dialog, "Enter a valid");
    const fields = { "E-mail address": "ida@example.com", Name: "Ida" };
    await submit(dialog, fields, "Send the invitation");
    await see(page, "The invitation is on its way.");
    await page.getByRole("link", { name: "ida@example.com" }).waitFor();
    expect((await web.app.mail.emailTo("ida@example.com")).subject).toBe("You are invited");
  });

  test("resets the access of a user, who sets a new password by e-mail", async () => {
    const user = await web.app.addVerifiedUser();
    const { accessToken } = await web.app.signIn(user);
    const tab = await web.signInAdmin();
    const { page } = tab;
    await goTo(page, `/admin/users/${user.id}`);
    await press(page, "Reset access");
    await expectAccessible(tab);
    await press(page.getByRole("dialog"), "Reset access");
    await see(page, "Access has been reset");
    expect(await web.app.profileStatus(accessToken)).toBe(401);
    expect((await web.app.login(user.email)).status).toBe(401);
    const { token } = await web.app.mail.emailTo(user.email, /Reset/);
    expect((await web.app.resetPassword(token)).status).toBe(200);
    await goTo(page, "/account/profile");
    const [root] = await web.app.sql<{ id: string }>(
      "select id from users where email = 'root@example.com'",
    );
    await goTo(page, `/admin/users/${root?.id}`);
    await page.getByLabel("Address is verified").waitFor();
    expect(await page.getByRole("button", { name: "Reset access" }).count()).toBe(0);
  });

  test("selected users can be suspended, and a suspended user sees the reason at the sign-in", async () => {
    const users = [
      await web.app.addVerifiedUser({ email: "stop1@example.com", name: "Stop One" }),
      await web.app.addVerifiedUser({ email: "stop2@example.com", name: "Stop Two" }),
    ];
    const tab = await web.signInAdmin();
    const { page } = tab;
    await openPage(page, "/admin/users?search=stop", "Users");
    const select = async () => {
      for (const { name } of users) await page.getByLabel(`Select ${name}`).check();
    };
    await select();
    await page.getByRole("searchbox").fill("stop1");
    await page.getByText("2 selected").waitFor({ state: "detached" }); // nothing happens to people out of sight
    await page.getByRole("searchbox").fill("stop");
    await select();
    await press(page, "Suspend accounts: 2");
    await expectAccessible(tab);
    await press(page.getByRole("dialog"), "Suspend");
    await see(page, "Done.");
    await expect
      .poll(() => page.locator("td .chip:visible", { hasText: "suspended" }).count())
      .toBe(2);
    const [one] = users as [(typeof users)[0]];
    expect((await web.app.login(one.email)).body.code).toBe("ACCOUNT_SUSPENDED");
    await openPage(page, `/admin/users/${one.id}`, one.email);
    await press(page, "Reinstate");
    await page.getByText("Reinstated.", { exact: true }).waitFor();
    expect((await web.app.login(one.email)).status).toBe(200);
    await press(page, "Suspend");
    await press(page.getByRole("dialog"), "Suspend");
    await page.getByText("Suspended.", { exact: true }).waitFor();
    const { page: other } = await web.open("/sign-in");
    await submit(other, { "E-mail address": one.email, Password: PASSWORD }, "Sign in");
    await seeAlert(other, "This account is suspended.");
  });
});
