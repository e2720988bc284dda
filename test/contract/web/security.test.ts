import { expect, test } from "vitest";
import { authenticatorOf } from "../../support/authenticator.ts";
import { describeWeb, expectAccessible, fillIn, goTo, screenshot } from "../../support/web-fixture.ts";

describeWeb("Web app: security and sessions", (web) => {
  test("the content security policy refuses inline scripts and foreign images, and tests detect it", async () => {
    const { page, problems } = await web.open("/sign-in");
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(problems).toEqual([]);
    await page.evaluate(`
      document.body.append(Object.assign(document.createElement("script"), { text: "injected = 1" }));
      document.body.append(Object.assign(new Image(), { src: "https://example.com/a.png" }))`);
    const seen = (what: string) => expect.poll(() => problems.join("\n")).toContain(`violates the policy: ${what}`);
    await seen("script-src-elem inline");
    await seen("img-src https://example.com/a.png");
    const injected = await page.evaluate("typeof injected");
    expect(injected).toBe("undefined");
    const errors = problems.length;
    await page.evaluate("void setTimeout(() => { throw new Error('of the page') })");
    await expect.poll(() => problems.slice(errors)).toContain("of the page");
  });

  test("sets up a second factor by QR code, signs in with a code, and turns it off", async () => {
    const user = await web.app.addUser();
    const tab = await web.signIn(user);
    const { page } = tab;
    await goTo(page, "/security");
    await expectAccessible(tab);
    await page
      .getByRole("button", { name: /turn on|set up/i })
      .first()
      .click();
    const qr = page.locator("dialog img");
    await qr.waitFor();
    await screenshot(tab, "second-factor");
    const secret = (await page.locator("dialog code").first().textContent()) ?? "";
    const authenticator = authenticatorOf(web.app, { secret, backupCodes: [], qrCode: "" } as never);
    await page.getByRole("dialog").getByRole("button").last().click();
    const again = await web.open("/sign-in");
    await fillIn(again.page, { "E-mail address": user.email, Password: user.password });
    await again.page.getByRole("button", { name: "Sign in" }).click();
    await fillIn(again.page, { Code: "000000" });
    await again.page.getByRole("button", { name: "Verify" }).click();
    await again.page.getByRole("alert").waitFor();
    await fillIn(again.page, { Code: await authenticator.code() });
    await again.page.getByRole("button", { name: "Verify" }).click();
    await again.page.getByRole("navigation", { name: "Menu" }).waitFor({ state: "attached" });
    web.app.clock.advance("30s"); // the next code
    await goTo(again.page, "/security");
    await again.page.getByRole("button", { name: "Turn off" }).click();
    const dialog = again.page.getByRole("dialog");
    await dialog.getByLabel("Current password").fill(user.password);
    await dialog.getByLabel("Code or backup code").fill(await authenticator.code());
    await dialog.getByRole("button", { name: "Turn off" }).click();
    await dialog.waitFor({ state: "detached" });
    const [row] = await web.app.sql("select mfa_secret from users where id = ?", [user.id]);
    expect(row).toEqual({ mfa_secret: null });
    expect([...tab.problems, ...again.problems]).toEqual([]);
  });

  test("two tabs refresh at once and stay signed in; one signs out of both", async () => {
    const user = await web.app.addUser();
    const context = await web.newBrowser();
    const one = await web.signIn(user, context);
    const other = await web.open("/profile", context);
    await other.page.getByRole("heading", { name: "Profile" }).waitFor();
    web.app.clock.advance("16m"); // the access tokens end
    await Promise.all([one, other].map(({ page }) => goTo(page, "/sessions")));
    for (const { page } of [one, other])
      await page.getByText("this session").or(page.locator(".tag.good")).first().waitFor();
    expect(
      (await web.app.sql("select id from sessions where user_id = ? and revoked_at is null", [user.id])).length,
    ).toBe(1);
    await expectAccessible(one);
    await screenshot(one, "sessions");
    await one.page.getByRole("button", { name: "Sign out" }).click();
    await other.page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect([...one.problems, ...other.problems]).toEqual([]);
  });

  test("a session that ends while a form is filled in: signs in again, and the input is kept", async () => {
    const user = await web.app.addUser();
    const tab = await web.signIn(user);
    const { page } = tab;
    await goTo(page, "/profile");
    await fillIn(page, { Name: "Typed before the end" });
    await web.app.sql("update sessions set revoked_at = ? where user_id = ?", [web.app.clock.now(), user.id]);
    await page.getByRole("button", { name: "Save" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    for (let i = 0; i < 3; i++) await page.keyboard.press("Escape");
    await dialog.getByLabel("Password", { exact: true }).fill(user.password);
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await dialog.waitFor({ state: "detached" });
    expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("Typed before the end");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved.").waitFor();
    expect(tab.problems).toEqual([]);
  });
});
