import { expect, test } from "vitest";
import {
  describeWeb,
  expectAccessible,
  goTo,
  press,
  see,
  seeHeading,
  submit,
} from "../../support/browser.ts";

describeWeb("Web app: codes by e-mail", { env: { EMAIL_SIGN_IN: "code" } }, (web) => {
  /** Asks for a code on the sign-in page of a new browser. */
  async function askFor(email: string) {
    const context = await web.newBrowser();
    const tab = await web.open("/sign-in", context);
    await press(tab.page, "E-mail me a code");
    await submit(tab.page, { "E-mail address": email }, "Send the code", "we have sent an e-mail");
    const { text = "", link = "" } = await web.app.mail.emailTo(email, /code/);
    const [, code = ""] = /Your code is (\d{6})/.exec(text) ?? [];
    return { context, tab, code, link };
  }

  test("a typed code signs in", async () => {
    const { email } = await web.app.addVerifiedUser();
    const { tab, code } = await askFor(email);
    await expectAccessible(tab);
    const wrong = String((Number(code) + 1) % 1_000_000).padStart(6, "0");
    await tab.page.getByLabel("Code").fill(wrong);
    await see(tab.page, /code is wrong|wrong/);
    await tab.page.getByLabel("Code").fill(code);
    await seeHeading(tab.page, "Chat");
  });

  test("the link signs in on a click where it was requested, and says so elsewhere", async () => {
    const { email } = await web.app.addVerifiedUser();
    const { context, link } = await askFor(email);
    const elsewhere = await web.open(link);
    await press(elsewhere.page, "Sign in");
    await see(elsewhere.page, "You can also enter the code from the e-mail there.");
    const here = await web.open(link, context);
    await expectAccessible(here);
    await press(here.page, "Sign in");
    await seeHeading(here.page, "Chat");
    expect(new URL(here.page.url()).hash).toBe("");
  });

  test("the password can be removed where a code signs in", async () => {
    const user = await web.app.addVerifiedUser();
    const tab = await web.signIn(user);
    const { page } = tab;
    await goTo(page, "/account/security");
    await press(page, "Remove the password");
    const dialog = page.getByRole("dialog");
    await see(dialog, "From then on you sign in with a code by e-mail.");
    await expectAccessible(tab);
    await press(dialog, "Remove the password");
    await see(page, "Your account has no password.");
    expect((await web.app.login(user.email)).status).toBe(401);
  });
});
