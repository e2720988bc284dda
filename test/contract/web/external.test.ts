import { expect, test } from "vitest";
import { CLIENT, startSignInProvider } from "../../../scripts/simulators/sign-in-provider.ts";
import {
  addAuthenticator,
  describeWeb,
  enter,
  expectAccessible,
  goTo,
  press,
  see,
  seeHeading,
  type Tab,
} from "../../support/browser.ts";
import { googleAccount } from "../../support/external.ts";
import { freePort } from "../../support/network/sockets.ts";
import { forSuite } from "../../support/suites.ts";

const url = `http://localhost:${await freePort()}`;
const provider = await forSuite(startSignInProvider());
const env = {
  PORT: new URL(url).port,
  PUBLIC_URL: url,
  ...{ GOOGLE_CLIENT_ID: CLIENT.id, GOOGLE_CLIENT_SECRET: CLIENT.secret },
  GOOGLE_ISSUER: provider.issuer,
};

// the provider is at another site: 127.0.0.1 and not localhost
describeWeb("Web app: sign-in providers", { env }, (web) => {
  const menu = ({ page }: Tab) =>
    page.getByRole("button", { name: /^Account menu/ }).waitFor({ state: "attached" });
  const CONTINUE = "Continue with Google";

  test("a sign-in creates an account, and leaves the response in neither the address nor the history", async () => {
    provider.visitedBy(googleAccount());
    const tab = await web.open(`${url}/sign-in`);
    await see(tab.page, CONTINUE);
    await expectAccessible(tab);
    await press(tab.page, CONTINUE);
    await menu(tab);
    expect(tab.page.url()).toBe(`${url}/`);
    await tab.page.reload();
    await menu(tab);
  });

  test("a provider is connected after a usual sign-in, and then signs in", async () => {
    const user = await web.app.addVerifiedUser();
    provider.visitedBy(googleAccount({ email: user.email, hd: "example.com" }));
    const tab = await web.open(`${url}/sign-in`);
    await press(tab.page, CONTINUE);
    await see(tab.page, "Sign in once as before, then Google is connected.");
    await expectAccessible(tab);
    await enter(tab.page, user);
    await seeHeading(tab.page, "Sign-in providers");
    await see(tab.page, `Google ${user.email}`);
    const other = await web.open(`${url}/sign-in`, await web.newBrowser());
    await press(other.page, CONTINUE);
    await menu(other);
  });

  test("a provider can be connected and disconnected on the security page", async () => {
    const user = await web.app.addUser();
    const account = googleAccount();
    provider.visitedBy(account);
    const tab = await web.open(`${url}/sign-in`);
    await enter(tab.page, user);
    await menu(tab);
    await goTo(tab.page, "/account/security");
    await press(tab.page, "Connect Google");
    await see(tab.page, account.email as string);
    await expectAccessible(tab);
    await press(tab.page, "Disconnect");
    await press(tab.page.getByRole("dialog"), "Disconnect");
    await see(tab.page, "No provider is connected.");
  });

  test("a connected provider confirms an old sign-in, and leads back to the page that asked", async () => {
    const user = await web.app.addUser();
    provider.visitedBy(googleAccount());
    const tab = await web.open(`${url}/sign-in`);
    await enter(tab.page, user);
    await menu(tab);
    await goTo(tab.page, "/account/security");
    await press(tab.page, "Connect Google");
    const disconnect = tab.page.getByRole("button", { name: "Disconnect" });
    await disconnect.waitFor();
    await web.app.sql(
      "update sessions set created_at = created_at - interval '16 minutes' where user_id = ?",
      [user.id],
    );
    await disconnect.click();
    await press(tab.page.getByRole("dialog"), "Disconnect");
    await tab.page.getByRole("button", { name: CONTINUE }).click();
    await see(tab.page, "You have confirmed that it is you.");
    expect(tab.page.url()).toBe(`${url}/account/security`);
    await disconnect.click();
    await press(tab.page.getByRole("dialog"), "Disconnect");
    await see(tab.page, "No provider is connected.");
  });

  test.runIf(web.name === "Chromium")(
    "connects in an old session of an account without a password, which a passkey confirms",
    async () => {
      const user = await web.app.addUser();
      const tab = await web.open(`${url}/sign-in`);
      const { page } = tab;
      await addAuthenticator(page);
      await enter(page, user);
      await press(page, "Set up a passkey", "The passkey is added.");
      await goTo(page, "/account/security");
      await press(page, "Remove the password");
      await press(page.getByRole("dialog"), "Remove the password");
      await see(page, "Your account has no password.");
      await web.app.sql(
        "update sessions set created_at = created_at - interval '16 minutes' where user_id = ?",
        [user.id],
      );
      const account = googleAccount();
      provider.visitedBy(account);
      await press(page, "Connect Google");
      await seeHeading(page, "Confirm that it is you");
      await expectAccessible(tab);
      await press(page.getByRole("dialog"), "Use a passkey");
      await seeHeading(page, "Sign-in providers");
      await see(page, `Google ${account.email}`);
    },
  );

  test("administrators see the connected providers of a user", async () => {
    const account = googleAccount();
    provider.visitedBy(account);
    const own = await web.open(`${url}/sign-in`);
    await press(own.page, CONTINUE);
    await menu(own);
    const [user] = await web.app.sql<{ id: string }>("select id from users where email = ?", [
      account.email,
    ]);
    const tab = await web.signInAdmin(await web.newBrowser());
    await goTo(tab.page, `/admin/users/${user?.id}`);
    await tab.page.getByRole("tab", { name: "Sign-in providers" }).click();
    await see(tab.page, `Google ${account.email}`);
    await expectAccessible(tab);
  });

  test("two tabs sign in concurrently with separate exchanges, and the back button shows no old response", async () => {
    provider.visitedBy(googleAccount());
    const context = await web.newBrowser();
    const tabs = [
      await web.open(`${url}/sign-in`, context),
      await web.open(`${url}/sign-in`, context),
    ];
    await Promise.all(tabs.map(({ page }) => see(page, CONTINUE)));
    await Promise.all(tabs.map(({ page }) => press(page, CONTINUE)));
    await Promise.all(tabs.map(menu));
    const [tab] = tabs as [Tab];
    await tab.page.goBack();
    await menu(tab);
    expect(new URL(tab.page.url()).hash).toBe("");
    expect(tab.page.url().startsWith(url)).toBe(true);
  });

  test("a refused sign-in is reported, with an offer to begin again", async () => {
    provider.visitedBy(undefined);
    const tab = await web.open(`${url}/sign-in`);
    await press(tab.page, CONTINUE);
    await see(tab.page, "The sign-in with this provider did not succeed.");
    await expectAccessible(tab);
    await press(tab.page, "Begin again");
    await see(tab.page, CONTINUE);
  });
});
