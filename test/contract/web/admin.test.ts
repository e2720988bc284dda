import { beforeEach, expect, test } from "vitest";
import { PASSWORD } from "../../support/accounts.ts";
import { createKey } from "../../support/api-keys.ts";
import {
  describeWeb,
  expectAccessible,
  goTo,
  press,
  see,
  seeAlert,
  seeHeading,
  shown,
  submit,
  type Tab,
} from "../../support/browser.ts";
import { until } from "../../support/until.ts";

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
  const open = async ({ page }: Tab, path: string, heading: string) => {
    await goTo(page, path);
    await page.getByRole("heading", { name: shown(heading), level: 1 }).waitFor();
  };

  test("the pages show today's numbers, users, events, e-mails and usage", async () => {
    await web.app.addUser();
    const tab = await web.signInAdmin();
    const { page } = tab;
    await open(tab, "/admin", "Overview");
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
      await open(tab, path, heading);
      await page.getByText(shown(content)).first().waitFor();
    }
    await open(tab, "/admin/audit-log", "Audit log");
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
    await open(tab, "/admin/users", "Users");
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
    await open(tab, "/account/profile", "Profile");
    await page.getByText(user.email, { exact: true }).first().waitFor();
    await page.setViewportSize({ width: 375, height: 300 });
    await page.evaluate("scrollTo(0, document.body.scrollHeight)");
    expect((await banner.boundingBox())?.y, "the banner stays in sight").toBeGreaterThanOrEqual(0);
    await press(page, "Back to your account");
    await page.setViewportSize({ width: 1280, height: 720 });
    await banner.waitFor({ state: "detached" });
    await goTo(page, `/admin/users/${user.id}?tab=audit`);
    await page.getByText("signed in as").first().waitFor();
    await open(tab, `/admin/audit-log?userId=${user.id}`, "Audit log");
    await page.getByRole("link", { name: "Berta Example" }).first().click();
    await seeHeading(page, user.email);
    await open(tab, "/admin", "Overview");
    expect(refused, "the page of a user asks for no other one when it is left").toEqual([]);
  });

  test("the page of a user shows and replaces the metadata, and explains what is not a JSON object", async () => {
    const user = await web.app.addVerifiedUser();
    const admin = await web.app.signInAdmin();
    await admin.put(`/admin/users/${user.id}`, { metadata: { plan: "team" } });
    const tab = await web.signInAdmin();
    const { page } = tab;
    await open(tab, `/admin/users/${user.id}`, user.email);
    const form = page.locator("form").filter({ has: page.getByLabel("JSON object") });
    const field = form.getByLabel("JSON object");
    expect(JSON.parse(await field.inputValue())).toEqual({ plan: "team" });
    for (const wrong of ["{plan: 1}", "[1]", "null"]) {
      await submit(form, { "JSON object": wrong }, "Change metadata");
      await form.getByText("Must be a JSON object.").waitFor();
    }
    await submit(form, { "JSON object": '{"id": 9007199254740993}' }, "Change metadata");
    await form.getByText("Must not contain numbers beyond 9007199254740991.").waitFor();
    await submit(form, { "JSON object": '{"seats": 25}' }, "Change metadata");
    await see(page, "Saved.");
    const metadata = async () => (await admin.get(`/admin/users/${user.id}`)).body.metadata;
    expect(await metadata()).toEqual({ seats: 25 });
    await expectAccessible(tab);
    await submit(form, { "JSON object": "" }, "Change metadata");
    await until("the metadata to be removed", async () => (await metadata()) === undefined);
  });

  test("a change of role asks for the administrator's own password", async () => {
    const user = await web.app.addVerifiedUser();
    const tab = await web.signInAdmin();
    const { page } = tab;
    const ownPassword = page.getByLabel("Your own password, to change the role");
    await open(tab, `/admin/users/${user.id}`, user.email);
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
    await open(tab, "/admin", "Overview");
    await page.getByRole("article").filter({ hasText: "AI calls" }).getByText("5,100").waitFor();
    await open(tab, "/admin/users", "Users");
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

  test("the overview covers 24 hours, 7 or 30 days, according to its address", async () => {
    const tab = await web.signInAdmin();
    const { page } = tab;
    const asked: string[] = [];
    page.on(
      "request",
      (request) => request.url().includes("/overview") && asked.push(request.url()),
    );
    await open(tab, "/admin", "Overview");
    const choice = (name: string) => page.getByRole("button", { name, exact: true });
    const isChosen = (name: string) => expect.poll(() => choice(name).getAttribute("aria-pressed"));
    await isChosen("7 days").toBe("true");
    await choice("24 h").click();
    await isChosen("24 h").toBe("true");
    await page.getByRole("img", { name: "Sign-ins" }).locator("canvas").waitFor();
    expect(new URL(page.url()).searchParams.get("period")).toBe("24h");
    await expectAccessible(tab);
    await open(tab, "/admin?period=30d", "Overview");
    await isChosen("30 days").toBe("true");
    expect(asked.map((url) => new URL(url).searchParams.get("period"))).toEqual([
      "7d",
      "24h",
      "30d",
    ]);
  });

  test("the overview shows what needs attention, and links to the lists", async () => {
    const user = await web.app.addVerifiedUser({ name: "Lotte Locked" });
    await web.app.lock(user.email);
    await web.app.failEmailOf(await web.app.addUser());
    await web.app.sql(
      `insert into webhooks (id, url, description, events, secret, position, disabled_at, disabled_reason, created_at)
       values ('00000000-0000-7000-8000-00000000abcd', 'https://hooks.example/x', 'CRM', '{user.erased}', 'x', 1000000000,
         now(), 'failing', now())`,
    );
    const tab = await web.signInAdmin();
    const { page } = tab;
    for (const [text, detail, place] of [
      [/accounts? (is|are) locked/, /Lotte Locked.*, .*until \d\d:\d\d/, /users\?locked=true$/],
      [/e.mails? failed in 30 days/, "550 no such mailbox", /emails\?status=failed$/],
      ["A webhook was turned off", "hooks.example (CRM)", /webhooks\?webhookId=0{8}-/],
    ] as const) {
      await open(tab, "/admin", "Overview");
      const notice = page.getByRole("link").filter({ hasText: text });
      await see(notice, detail);
      await notice.click();
      await expect.poll(() => page.url()).toMatch(place);
    }
    await web.app.sql("delete from webhooks");
  });

  test("the overview compares numbers with the previous period, and shows the used share of the budget", async () => {
    const { id } = await web.app.addUser();
    const daysAgo = (days: number) => new Date(web.app.clock.now().getTime() - days * 86_400_000);
    for (const [days, cost] of [
      [2, 3_000_000_000],
      [9, 1_000_000_000],
    ] as const)
      await web.app.sql(
        `insert into ai_usage (id, user_id, provider, model, outcome, cost_nanos, created_at)
         values (gen_random_uuid(), ?, 'provider-a', 'model-a-1', 'completed', ?, ?)`,
        [id, cost, daysAgo(days)],
      );
    const admin = await web.app.signInAdmin();
    const budget = { scope: "deployment", unit: "cost", period: "month", limit: "20" };
    const { body } = await admin.put("/admin/budgets", budget);
    await admin.post(`/admin/budgets/${body.budget.id}/adjust`, { used: "8.6", reason: "a test" });
    const tab = await web.signInAdmin();
    const { page } = tab;
    await open(tab, "/admin", "Overview");
    const card = page.getByRole("article").filter({ hasText: /^Cost/ });
    await see(card, "+200%");
    await see(card, "43% of budget");
    await page.getByRole("listitem").filter({ hasText: "succeeded" }).waitFor();
    await page.getByRole("img", { name: "Sign-ins" }).hover();
    await page.locator(".chart + .menu", { hasText: "failed" }).first().waitFor();
    await expectAccessible(tab);
    await admin.delete(`/admin/budgets/${body.budget.id}`);
  });

  test("users can be filtered by two-factor authentication and sorted by last sign-in", async () => {
    const early = await web.app.addVerifiedUser({ email: "early@seen.example.com" });
    const late = await web.app.addVerifiedUser({ email: "late@seen.example.com" });
    await web.app.setUpFactor(late);
    for (const [{ id }, at] of [
      [early, "2031-01-01"],
      [late, "2031-02-01"],
    ] as const)
      await web.app.sql("update users set last_login_at = ? where id = ?", [at, id]);
    const tab = await web.signInAdmin();
    const { page } = tab;
    await open(tab, "/admin/users", "Users");
    const first = () => page.locator("tbody tr").first().getByRole("link").innerText();
    const head = page.getByRole("columnheader", { name: "Last sign-in" });
    await head.getByRole("button").click();
    await expect.poll(first).toContain(late.email);
    expect(await head.getAttribute("aria-sort")).toBe("descending");
    await press(page, "Two-factor");
    await page.getByRole("menuitemradio", { name: "off" }).click();
    await expect.poll(first).toContain(early.email);
    expect(new URL(page.url()).search).toBe("?mfaEnabled=false&sort=-lastLoginAt");
    await expectAccessible(tab);
  });

  test("usage can be shown for one person, by API key and by alias", async () => {
    const user = await web.app.addVerifiedUser({ name: "Kai Keyholder" });
    const { apiKey: key } = await createKey(await web.app.signIn(user), {
      name: "Nightly report",
    });
    await web.app.sql(
      `insert into ai_usage (id, user_id, api_key_id, alias, provider, model, outcome, input_tokens, created_at)
       values (gen_random_uuid(), ?, ?, 'fast', 'provider-a', 'model-a-1', 'completed', 77, ?)`,
      [user.id, key.id, web.app.clock.now()],
    );
    const tab = await web.signInAdmin();
    const { page } = tab;
    await open(tab, "/admin/usage", "Usage");
    await page.getByRole("combobox", { name: "Person" }).fill("Kai Key");
    await page.getByRole("option", { name: "Kai Keyholder" }).click();
    await expect.poll(() => new URL(page.url()).searchParams.get("userId")).toBe(user.id);
    const rows = page.getByRole("region", { name: "As a table" }).locator("tbody tr");
    await expect.poll(() => rows.allInnerTexts()).toHaveLength(1);
    await press(page, "API key");
    await expect
      .poll(() => rows.allInnerTexts())
      .toEqual([expect.stringMatching(/^Nightly report\s*Kai Keyholder\s+1\s+77/)]);
    await press(page, "Alias");
    await expect
      .poll(() => rows.allInnerTexts())
      .toEqual([expect.stringMatching(/^fast\s+1\s+77/)]);
    await expectAccessible(tab);
  });

  test("an invited user is in the list immediately", async () => {
    const tab = await web.signInAdmin();
    const { page } = tab;
    await open(tab, "/admin/users", "Users");
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
    await open(tab, "/admin/users?search=stop", "Users");
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
    await open(tab, `/admin/users/${one.id}`, one.email);
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

  test("a user is suspended by the menu of the row after a confirmation", async () => {
    const user = await web.app.addVerifiedUser({ email: "row@example.com", name: "Rowena" });
    const tab = await web.signInAdmin();
    const { page } = tab;
    await open(tab, "/admin/users?search=row@example.com", "Users");
    const choose = async (item: string) => {
      await press(page, "Actions for Rowena");
      await page.getByRole("menuitem", { name: item }).click();
    };
    await choose("Suspend");
    const dialog = page.getByRole("dialog", { name: `Suspend ${user.email}` });
    await press(dialog, "Close");
    expect((await web.app.login(user.email)).status).toBe(200);
    await choose("Suspend");
    await press(dialog, "Suspend");
    await see(page, "Done.");
    expect((await web.app.login(user.email)).body.code).toBe("ACCOUNT_SUSPENDED");
    await page.locator("td .chip:visible", { hasText: "suspended" }).waitFor(); // the list is read again
    await choose("Reinstate");
    await page.locator("td .chip:visible", { hasText: "active" }).waitFor();
    expect((await web.app.login(user.email)).status).toBe(200);
  });

  test("users can be sorted by address, in both directions", async () => {
    const tab = await web.signInAdmin();
    const { page } = tab;
    await open(tab, "/admin/users", "Users");
    const head = page.getByRole("columnheader", { name: "Name and address" });
    await press(head, "Name and address");
    await page.waitForURL("**/admin/users?sort=email");
    await expect.poll(() => head.getAttribute("aria-sort")).toBe("ascending");
    await press(head, "Name and address");
    await page.waitForURL("**/admin/users?sort=-email");
    await page.getByRole("searchbox").fill("root");
    await expect.poll(() => head.getByRole("button").count()).toBe(0);
    await page.getByRole("link", { name: "root@example.com" }).waitFor();
  });

  test("providers are shown with their recent replies and failures", async () => {
    const { id } = await web.app.addUser();
    await web.app.sql(
      `insert into ai_usage (id, user_id, provider, model, outcome, latency_ms, created_at)
       select gen_random_uuid(), ?, 'provider-d', 'model-d-1', case when n < 4 then 'overloaded' else 'completed' end, 1840, ?
       from generate_series(1, 5) as n`,
      [id, web.app.clock.now()],
    );
    const tab = await web.signInAdmin();
    const { page } = tab;
    await open(tab, "/admin", "Overview");
    await page
      .getByRole("link", { name: "3 of 5 calls in the last hour: overloaded" })
      .filter({ hasText: "provider-d is failing" })
      .click();
    await seeHeading(page, "Providers");
    const card = page.getByRole("article").filter({ hasText: "provider-d" });
    for (const text of ["failing", "1.8 s", "overloaded"])
      await card.getByText(text).first().waitFor();
    await expectAccessible(tab);
  });

  test("an e-mail is shown as its recipient sees it, without its token", async () => {
    const user = await web.app.addUser();
    const tab = await web.signInAdmin();
    const { page } = tab;
    await goTo(page, `/admin/emails?to=${user.email}`);
    await press(page, "Preview of this e-mail");
    const dialog = page.getByRole("dialog");
    await see(dialog, "Please verify that this is your e-mail address.");
    const button = dialog.getByText("Verify my address");
    const style = await button.getAttribute("style");
    expect(style, "the styles of the e-mail apply").toContain("padding: 10px 18px");
    expect(await dialog.getByRole("link").count(), "it leads nowhere").toBe(0);
    await expectAccessible(tab);
    await press(dialog, "Phone");
    await button.waitFor();
    await press(dialog, "Text");
    await see(dialog, /Verify my address:\s+http\S+\/verify-email\n/);
    expect(await dialog.getByText("token=").count()).toBe(0);
  });

  test("a failed e-mail can be sent again", async () => {
    const user = await web.app.addUser();
    await web.app.failEmailOf(user);
    const { page } = await web.signInAdmin();
    await goTo(page, `/admin/emails?to=${user.email}`);
    await see(page, "550 no such mailbox");
    await press(page, "Send again", "The e-mail has been queued again.");
  });
});
