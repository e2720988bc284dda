import { expect, test } from "vitest";
import { NEW_PASSWORD, type TestUser } from "../../support/accounts.ts";
import {
  addAuthenticator,
  describeWeb,
  enter,
  expectAccessible,
  goTo,
  press,
  see,
  seeHeading,
  signOut,
  submit,
  type Tab,
} from "../../support/browser.ts";
import { freePort } from "../../support/network/sockets.ts";

const url = `http://localhost:${await freePort()}`;
const env = { PORT: new URL(url).port, PUBLIC_URL: url };

describeWeb("Web app: passkeys", { browsers: ["Chromium"], env }, (web) => {
  const menu = ({ page }: Tab) =>
    page.getByRole("button", { name: /^Account menu/ }).waitFor({ state: "attached" });

  /** The security page of a user who has just signed in by password. */
  async function openSecurity(
    user: TestUser,
    context?: Awaited<ReturnType<typeof web.newBrowser>>,
  ) {
    const tab = await web.open(`${url}/sign-in`, context);
    await enter(tab.page, user);
    await menu(tab);
    await goTo(tab.page, "/account/security");
    await seeHeading(tab.page, "Passkeys");
    return tab;
  }

  test("a passkey can be added, renamed and removed, and the browser then forgets it", async () => {
    const tab = await openSecurity(await web.app.addUser());
    const { page } = tab;
    const { stored } = await addAuthenticator(page);
    await press(page, "Add a passkey", "On one device only");
    expect(await stored()).toBe(1);
    await expectAccessible(tab);
    await press(page, "Rename");
    const dialog = page.getByRole("dialog");
    await expectAccessible(tab);
    await submit(dialog, { Name: "Laptop" }, "Rename");
    await see(page, "Laptop");
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await press(dialog, "Remove");
    await see(page, "You have no passkey yet.");
    await expect.poll(stored).toBe(0);
  });

  test("offers a passkey once after a sign-in with a password, to those who have none", async () => {
    const user = await web.app.addUser();
    const context = await web.newBrowser({ viewport: { width: 360, height: 640 } });
    const tab = await web.open(`${url}/sign-in`, context);
    const { page } = tab;
    const { stored } = await addAuthenticator(page);
    const offer = page.getByRole("button", { name: "Set up a passkey" });
    await enter(page, user);
    await offer.waitFor();
    await expectAccessible(tab);
    await press(page, "Not now");
    await expect.poll(() => offer.count()).toBe(0);
    await page.setViewportSize({ width: 1_100, height: 700 }); // with the account menu in sight
    await goTo(page, "/account/profile");
    await signOut(page);
    await enter(page, user);
    await menu(tab);
    await goTo(page, "/account/security");
    await see(page, "You have no passkey yet."); // answered later than the offer would have been
    await goTo(page, "/account/profile");
    await seeHeading(page, "Profile");
    expect(await offer.count()).toBe(0);

    const other = await web.open(`${url}/sign-in`, await web.newBrowser());
    const authenticator = await addAuthenticator(other.page);
    await enter(other.page, user);
    await press(other.page, "Set up a passkey", "The passkey has been added.");
    expect([await stored(), await authenticator.stored()]).toEqual([0, 1]);
    const third = await web.open(`${url}/sign-in`, await web.newBrowser());
    await enter(third.page, user);
    await menu(third);
    await goTo(third.page, "/account/security");
    await see(third.page, "On one device only");
    await goTo(third.page, "/account/profile");
    await seeHeading(third.page, "Profile");
    expect(await third.page.getByRole("button", { name: "Set up a passkey" }).count()).toBe(0);
  });

  test("the offer to an administrator is not shown while the administrator acts as a user", async () => {
    const user = await web.app.addVerifiedUser();
    const admin = await web.app.addUser({ role: "admin" });
    const tab = await web.open(`${url}/sign-in`);
    const { page } = tab;
    await addAuthenticator(page);
    const offer = page.getByRole("button", { name: "Set up a passkey" });
    await enter(page, admin);
    await offer.waitFor();
    await goTo(page, `/admin/users/${user.id}`);
    await press(page, "Sign in as this user");
    await press(page.getByRole("dialog"), "Sign in as this user");
    await see(page, `is acting as ${user.email}`);
    await goTo(page, "/account/profile");
    await seeHeading(page, "Profile");
    expect(await offer.count()).toBe(0);
    await press(page, "Back to your account");
    await offer.waitFor();
  });

  test("an old sign-in asks for the password, and then continues", async () => {
    const user = await web.app.addUser();
    const tab = await openSecurity(user);
    const { page } = tab;
    await addAuthenticator(page);
    web.app.clock.advance("20m");
    await press(page, "Add a passkey");
    const dialog = page.getByRole("dialog");
    await submit(dialog, { "Current password": user.password }, "Confirm");
    await see(page, "On one device only");
  });

  test("the password can be removed if a passkey signs in, with the passkey as confirmation, and set again", async () => {
    const user = await web.app.addUser();
    const tab = await openSecurity(user);
    const { page } = tab;
    await addAuthenticator(page);
    const remove = page.getByRole("button", { name: "Remove the password" });
    expect(await remove.count()).toBe(0); // it is the only way in
    await press(page, "Add a passkey", "On one device only");
    web.app.clock.advance("20m");
    const dialog = page.getByRole("dialog");
    await remove.click();
    await expectAccessible(tab);
    await press(dialog.last(), "Remove the password");
    await seeHeading(page, "Confirm that it is you");
    await expectAccessible(tab);
    await press(dialog.last(), "Use a passkey");
    await see(page, "Your account has no password.");
    expect((await web.app.login(user.email)).status).toBe(401);
    await expectAccessible(tab);
    await goTo(page, "/account/data");
    await press(page, "Delete the account");
    await expect.poll(() => dialog.getByLabel("Current password").count()).toBe(0);
    await press(dialog, "Close");
    await goTo(page, "/account/security");
    await submit(page, { "New password": NEW_PASSWORD }, "Set a password");
    await see(page, "Your account now has a password.");
    expect((await web.app.login(user.email, NEW_PASSWORD)).status).toBe(200);
  });

  test("an administrator without a password confirms a change of a role with the passkey", async () => {
    const user = await web.app.addUser();
    const admin = await web.app.addUser({ role: "admin" });
    const tab = await openSecurity(admin);
    const { page } = tab;
    await addAuthenticator(page);
    await press(page, "Add a passkey", "On one device only");
    await press(page, "Remove the password");
    const dialog = page.getByRole("dialog");
    await press(dialog.last(), "Remove the password");
    await see(page, "Your account has no password.");
    await goTo(page, `/admin/users/${user.id}`);
    await page.getByLabel("Role").selectOption("admin");
    await expect.poll(() => page.getByLabel("Your own password").count()).toBe(0);
    await press(page, "Save");
    await press(dialog.last(), "Use a passkey");
    await see(page, "Saved.");
    expect((await web.app.login(user.email)).body.user.role).toBe("admin");
  });

  test("a second factor can be required at every sign-in, with backup codes, and no longer required, in German and by keyboard", async () => {
    const user = await web.app.addUser();
    const tab = await openSecurity(user);
    const { page } = tab;
    await addAuthenticator(page);
    await press(page, "Add a passkey", "On one device only");
    await page.setViewportSize({ width: 320, height: 640 });
    await page.evaluate("localStorage.setItem('gatehouse-language', 'de'); location.reload()");
    const section = page.getByRole("article").filter({ hasText: "Zweiter Faktor bei jeder" });
    await see(section, "Nicht erforderlich");
    await section.getByRole("button", { name: "Verlangen" }).focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    await expect.poll(() => dialog.getByRole("listitem").count()).toBe(10);
    await expectAccessible(tab);
    await press(dialog, "Ich habe sie gespeichert");
    await section.getByText("Erforderlich", { exact: true }).waitFor();
    expect((await web.app.login(user.email)).body.requiresMfa).toBe(true);
    await expectAccessible(tab);
    await section.getByRole("button", { name: "Nicht mehr verlangen" }).focus();
    await page.keyboard.press("Enter");
    await see(section, "Nicht erforderlich");
    expect((await web.app.login(user.email)).body.requiresMfa).toBe(false);
  });

  test("asks for a passkey or a backup code where the account has no authenticator app", async () => {
    const user = await web.app.addUser();
    const tab = await openSecurity(user);
    const { page } = tab;
    await addAuthenticator(page);
    await press(page, "Add a passkey", "On one device only");
    await press(page, "Require it");
    const dialog = page.getByRole("dialog");
    const backupCode = (await dialog.getByRole("listitem").first().textContent()) ?? "";
    await press(dialog, "I have saved them");
    const other = await web.open(`${url}/sign-in`, await web.newBrowser());
    await enter(other.page, user);
    await see(other.page, "Enter one of your backup codes.");
    await other.page.getByRole("button", { name: "Use a passkey" }).waitFor();
    expect(
      await other.page.getByRole("button", { name: "Use the authenticator app" }).count(),
    ).toBe(0);
    await expectAccessible(other);
    await submit(other.page, { "Backup code": backupCode }, "Verify");
    await menu(other);
  });

  test("a passkey signs in from the autofill, and completes a second step with a button", async () => {
    const user = await web.app.addUser();
    const tab = await openSecurity(user);
    const { page } = tab;
    const { setPresence } = await addAuthenticator(page);
    await press(page, "Add a passkey", "On one device only");
    await page.evaluate("fetch('/auth/logout', { method: 'POST' })");
    await page.evaluate("localStorage.clear(); location.href = '/sign-in'");
    await menu(tab); // the authenticator answers the offer in the autofill at once
    await web.app.setUpFactor(user);
    await setPresence(false); // now nobody answers it
    await page.evaluate("localStorage.clear(); location.href = '/sign-in'");
    await enter(page, user);
    await setPresence(true);
    await press(page, "Use a passkey");
    await menu(tab);
  });

  test("the page says that no passkey was used, in German and on a phone", async () => {
    const context = await web.newBrowser({
      locale: "de-DE",
      viewport: { width: 360, height: 640 },
    });
    const tab = await web.open(`${url}/sign-in`, context);
    const { page } = tab;
    await page.getByRole("button", { name: "Passkey verwenden" }).waitFor();
    await expectAccessible(tab);
    await addAuthenticator(page); // it has no passkey
    await press(page, "Passkey verwenden", /Es wurde kein Passkey verwendet/);
  });
});

const elsewhere = `http://localhost:${await freePort()}`;
const own = { PORT: new URL(elsewhere).port, PUBLIC_URL: elsewhere };

describeWeb(
  "Web app: passkeys without an authenticator",
  { browsers: ["Firefox"], env: own },
  (web) => {
    test("the pages offer passkeys, and a password signs in while the browser waits for one", async () => {
      const user = await web.app.addUser();
      const tab = await web.open(`${elsewhere}/sign-in`);
      const { page } = tab;
      await page.getByRole("button", { name: "Use a passkey" }).waitFor();
      await expectAccessible(tab);
      await press(page, "Use a passkey");
      await enter(page, user);
      await page.getByRole("button", { name: /^Account menu/ }).waitFor({ state: "attached" });
      await goTo(page, "/account/security");
      await see(page, "You have no passkey yet.");
      await page.getByRole("button", { name: "Add a passkey" }).waitFor();
      await expectAccessible(tab);
    });
  },
);
