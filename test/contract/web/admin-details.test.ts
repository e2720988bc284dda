import { beforeEach, expect, test } from "vitest";
import { createKey } from "../../support/api-keys.ts";
import {
  describeWeb,
  expectAccessible,
  goTo,
  openPage,
  press,
  see,
  seeHeading,
  submit,
} from "../../support/browser.ts";
import { until } from "../../support/until.ts";

describeWeb("Web app: details of administration", {}, (web) => {
  beforeEach(() => web.app.clock.advance("61s")); // the administrator may sign in ten times a minute

  test("the page of a user shows and replaces the metadata, and explains what is not a JSON object", async () => {
    const user = await web.app.addVerifiedUser();
    const admin = await web.app.signInAdmin();
    await admin.put(`/admin/users/${user.id}`, { metadata: { plan: "team" } });
    const tab = await web.signInAdmin();
    const { page } = tab;
    await openPage(page, `/admin/users/${user.id}`, user.email);
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

  test("the overview covers 24 hours, 7 or 30 days, according to its address", async () => {
    const tab = await web.signInAdmin();
    const { page } = tab;
    const asked: string[] = [];
    page.on(
      "request",
      (request) => request.url().includes("/overview") && asked.push(request.url()),
    );
    await openPage(page, "/admin", "Overview");
    const choice = (name: string) => page.getByRole("button", { name, exact: true });
    const isChosen = (name: string) => expect.poll(() => choice(name).getAttribute("aria-pressed"));
    await isChosen("7 days").toBe("true");
    await choice("24 h").click();
    await isChosen("24 h").toBe("true");
    await page.getByRole("img", { name: "Sign-ins" }).locator("canvas").waitFor();
    expect(new URL(page.url()).searchParams.get("period")).toBe("24h");
    await expectAccessible(tab);
    await openPage(page, "/admin?period=30d", "Overview");
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
      await openPage(page, "/admin", "Overview");
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
    await openPage(page, "/admin", "Overview");
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
    await openPage(page, "/admin/users", "Users");
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
    await openPage(page, "/admin/usage", "Usage");
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

  test("a user is suspended by the menu of the row after a confirmation", async () => {
    const user = await web.app.addVerifiedUser({ email: "row@example.com", name: "Rowena" });
    const tab = await web.signInAdmin();
    const { page } = tab;
    await openPage(page, "/admin/users?search=row@example.com", "Users");
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
    await openPage(page, "/admin/users", "Users");
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
    await openPage(page, "/admin", "Overview");
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
