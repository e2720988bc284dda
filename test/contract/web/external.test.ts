import { randomUUID } from "node:crypto";
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
import { githubAccount, googleAccount } from "../../support/external.ts";
import { freePort } from "../../support/network/sockets.ts";
import { forSuite } from "../../support/suites.ts";

const provider = await forSuite(startSignInProvider());
const providers = {
  ...{ GOOGLE_CLIENT_ID: CLIENT.id, GOOGLE_CLIENT_SECRET: CLIENT.secret },
  GOOGLE_ISSUER: provider.issuer,
  ...{ GITHUB_CLIENT_ID: CLIENT.id, GITHUB_CLIENT_SECRET: CLIENT.secret },
  ...{ GITHUB_BASE_URL: provider.issuer, GITHUB_API_URL: provider.issuer },
};

/** The product at localhost: the provider is at another site, 127.0.0.1. */
async function env() {
  const port = `${await freePort()}`;
  return { ...providers, PORT: port, PUBLIC_URL: `http://localhost:${port}` };
}

describeWeb("Web app: sign-in providers", { env }, (web) => {
  const url = web.app.settings.PUBLIC_URL as string;
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
    await see(tab.page, "Sign in once the way you usually do, and Google will be connected.");
    await expectAccessible(tab);
    await enter(tab.page, user);
    await seeHeading(tab.page, "Sign-in providers");
    await see(tab.page, `Google ${user.email}`);
    const other = await web.open(`${url}/sign-in`, await web.newBrowser());
    await press(other.page, CONTINUE);
    await menu(other);
  });

  test("a provider is connected after a sign-in with another one, and only to an account that exists", async () => {
    const email = `${randomUUID()}@gmail.com`;
    const first = githubAccount(email, true);
    provider.visitedBy(first);
    const own = await web.open(`${url}/sign-in`);
    await press(own.page, "Continue with GitHub");
    await menu(own);
    const google = googleAccount({ email });
    const arrive = async () => {
      provider.visitedBy(google);
      const tab = await web.open(`${url}/sign-in`, await web.newBrowser());
      await press(tab.page, CONTINUE);
      await see(tab.page, "Sign in once the way you usually do, and Google will be connected.");
      return tab;
    };
    const stranger = await arrive();
    expect(await stranger.page.getByRole("button", { name: CONTINUE }).count()).toBe(0);
    await expectAccessible(stranger);
    provider.visitedBy(githubAccount(`${randomUUID()}@example.com`, true));
    await press(stranger.page, "Continue with GitHub");
    await see(stranger.page, "No account here is connected with this one.");
    await expectAccessible(stranger);
    const tab = await arrive();
    provider.visitedBy(first);
    await press(tab.page, "Continue with GitHub");
    await seeHeading(tab.page, "Sign-in providers");
    await see(tab.page, `Google ${email}`);
    expect(await tab.page.evaluate("sessionStorage.length")).toBe(0);
  });

  test("an account that waits to be connected is forgotten if somebody else begins a sign-in in the same tab", async () => {
    const { email } = await web.app.addVerifiedUser();
    provider.visitedBy(googleAccount({ email, hd: "example.com" }));
    const { page } = await web.open(`${url}/sign-in`);
    await press(page, CONTINUE);
    await see(page, "Sign in once the way you usually do, and Google will be connected.");
    const theirs = `${randomUUID()}@example.com`;
    provider.visitedBy(undefined);
    await press(page, "Continue with GitHub");
    await see(page, "Signing in with this provider failed.");
    provider.visitedBy(githubAccount(theirs, true));
    await press(page, "Start again");
    await press(page, "Continue with GitHub");
    await page.getByRole("button", { name: /^Account menu/ }).waitFor({ state: "attached" });
    await goTo(page, "/account/security");
    await see(page, `GitHub ${theirs}`);
    expect(await page.getByText(email).count()).toBe(0);
  });

  test("a reload of the page to which the provider has led leads to a new beginning", async () => {
    const { email } = await web.app.addVerifiedUser();
    provider.visitedBy(googleAccount({ email, hd: "example.com" }));
    const tab = await web.open(`${url}/sign-in`);
    await press(tab.page, CONTINUE);
    await see(tab.page, "Sign in once the way you usually do, and Google will be connected.");
    expect(tab.page.url()).toBe(`${url}/external`);
    await tab.page.reload();
    await see(tab.page, "The provider did not respond. Please start again.");
    await press(tab.page, "Start again");
    await see(tab.page, CONTINUE);
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
      await press(page, "Set up a passkey", "The passkey has been added.");
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

  test("administrators see how a user signs in, and the connected providers", async () => {
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
    await tab.page.getByRole("tab", { name: "Ways to sign in" }).click();
    await see(tab.page, `Google ${account.email}`);
    const facts = tab.page.getByRole("tabpanel").getByRole("definition");
    expect(await facts.allTextContents()).toEqual(["none", "0", "off", "Not required"]);
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
    await see(tab.page, "Signing in with this provider failed.");
    await expectAccessible(tab);
    await press(tab.page, "Start again");
    await see(tab.page, CONTINUE);
  });
});
