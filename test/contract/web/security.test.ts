import { expect, test } from "vitest";
import {
  describeWeb,
  enter,
  expectAccessible,
  fillIn,
  goTo,
  press,
  see,
  seeAlert,
  seeHeading,
  signOut,
  submit,
} from "../../support/browser.ts";

describeWeb("Web app: security and sessions", {}, (web) => {
  test("the content security policy blocks inline scripts and foreign images, and tests detect it", async () => {
    const { page, problems } = await web.open("/sign-in");
    await seeHeading(page, "Sign in");
    expect(problems).toEqual([]);
    await page.evaluate(`
      document.body.append(Object.assign(document.createElement("script"), { text: "injected = 1" }));
      document.body.append(Object.assign(new Image(), { src: "https://example.com/a.png" }))`);
    const seen = (what: string) =>
      expect.poll(() => problems.join("\n")).toContain(`violates the policy: ${what}`);
    await seen("script-src-elem inline");
    await seen("img-src https://example.com/a.png");
    const injected = await page.evaluate("typeof injected");
    expect(injected).toBe("undefined");
    const errors = problems.length;
    await page.evaluate("void setTimeout(() => { throw new Error('of the page') })");
    await expect.poll(() => problems.slice(errors)).toContain("of the page");
    problems.length = 0; // they were wanted
  });

  test("a second factor is set up with a QR code, signs in with a code, and is turned off", async () => {
    const user = await web.app.addUser();
    const tab = await web.signIn(user);
    const { page } = tab;
    await goTo(page, "/account/security");
    await expectAccessible(tab);
    await press(page, "Set up");
    await page.locator("dialog img").waitFor(); // the QR code
    const secret = (await page.locator("dialog code").first().textContent()) ?? "";
    const authenticator = web.app.authenticatorOf({ secret, backupCodes: [], qrCode: "" } as never);
    await page.getByRole("dialog").getByRole("button").last().click();
    const again = await web.open("/sign-in");
    await enter(again.page, user);
    await fillIn(again.page, { Code: "000000" }); // the sixth digit submits
    await again.page.getByRole("alert").waitFor();
    await fillIn(again.page, { Code: await authenticator.code() });
    await again.page.getByRole("button", { name: /^Account menu/ }).waitFor();
    web.app.clock.advance("30s"); // the next code
    await goTo(again.page, "/account/security");
    await press(again.page, "Turn off");
    const dialog = again.page.getByRole("dialog");
    const { y, height } = (await dialog.boundingBox()) ?? { y: 0, height: 0 };
    const middle = (again.page.viewportSize()?.height ?? 0) / 2;
    expect(y + height / 2, "the dialog is in the middle").toBeCloseTo(middle, -1);
    const proof = {
      "Current password": user.password,
      "Code or backup code": await authenticator.code(),
    };
    await submit(dialog, proof, "Turn off");
    await dialog.waitFor({ state: "detached" });
    const [row] = await web.app.sql("select mfa_secret from users where id = ?", [user.id]);
    expect(row).toEqual({ mfa_secret: null });
  });

  test("a second factor is shown as on only after a first code, and can be set up again until then", async () => {
    const user = await web.app.addUser();
    const tab = await web.signIn(user);
    const { page } = tab;
    const section = page.getByRole("article").filter({ hasText: "Two-factor authentication" });
    const dialog = page.getByRole("dialog");
    const secretShown = async () => {
      await dialog.locator("img").waitFor(); // the QR code
      return (await dialog.locator("code").first().textContent()) ?? "";
    };
    await goTo(page, "/account/security");
    await press(page, "Set up");
    const first = await secretShown();
    await press(dialog, "Later");
    await see(section, "Not confirmed yet");
    await page.reload();
    await see(section, "Not confirmed yet");
    await expectAccessible(tab);
    await press(section, "Set up again");
    await expect.poll(secretShown).not.toBe(first);
    const secret = await secretShown();
    await submit(dialog, { Code: "000000", "Current password": user.password }, "Verify");
    await seeAlert(page, "The code is wrong");
    await see(section, "Not confirmed yet");
    const authenticator = web.app.authenticatorOf({ secret, backupCodes: [], qrCode: "" });
    const code = await authenticator.code();
    await submit(dialog, { Code: `${code.slice(0, 3)} ${code.slice(3)}` }, "Verify");
    await see(dialog, "Two-factor authentication is on");
    const backupCodes = await dialog.getByRole("listitem").allInnerTexts();
    expect(backupCodes).toHaveLength(10);
    await press(dialog, "I have saved them");
    await section.getByText("On", { exact: true }).waitFor();
    expect((await web.app.signInBy(user, { backupCode: backupCodes[0] })).status).toBe(200);
  });

  test("a second factor that was never confirmed can be confirmed later, or turned off with the password alone", async () => {
    const user = await web.app.addUser();
    const { authenticator } = await web.app.setUpFactor(user);
    const { page } = await web.open("/sign-in");
    await enter(page, user);
    await press(page, "Use a backup code");
    await submit(page, { "Backup code": authenticator.backupCodes[0] ?? "" }, "Verify");
    await goTo(page, "/account/security");
    await see(page, "Not confirmed yet");
    const dialog = page.getByRole("dialog");
    await press(page, "Turn off");
    expect(await dialog.getByLabel("Code or backup code").count()).toBe(0);
    await press(dialog, "Close");
    await press(page, "Enter a code");
    const proof = { Code: await authenticator.code(), "Current password": user.password };
    await submit(dialog, proof, "Verify", "Two-factor authentication is on");
  });

  test("two tabs refresh concurrently and stay signed in, and a sign-out applies to both", async () => {
    const user = await web.app.addUser();
    const context = await web.newBrowser();
    const one = await web.signIn(user, context);
    const other = await web.open("/account/profile", context);
    await seeHeading(other.page, "Profile");
    web.app.clock.advance("16m"); // the access tokens end
    await Promise.all([one, other].map(({ page }) => goTo(page, "/account/sessions")));
    for (const { page } of [one, other])
      await page.getByText("this session").or(page.locator(".chip.good")).first().waitFor();
    const open = "select id from sessions where user_id = ? and revoked_at is null";
    expect(await web.app.sql(open, [user.id])).toHaveLength(1);
    await expectAccessible(one);
    await signOut(one.page);
    await seeHeading(other.page, "Sign in");
  });

  test("a session that ends while a form is filled in asks for the password, and the input is kept", async () => {
    const user = await web.app.addUser();
    const { page } = await web.signIn(user);
    await goTo(page, "/account/profile");
    await fillIn(page, { Name: "Typed before the end" });
    await web.app.sql("update sessions set revoked_at = ? where user_id = ?", [
      web.app.clock.now(),
      user.id,
    ]);
    await press(page, "Save");
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    for (let i = 0; i < 3; i++) await page.keyboard.press("Escape");
    await submit(dialog, { Password: user.password }, "Sign in");
    await dialog.waitFor({ state: "detached" });
    expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe(
      "Typed before the end",
    );
    await press(page, "Save", "Saved.");
  });
});
