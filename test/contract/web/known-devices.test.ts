import { expect, test } from "vitest";
import {
  describeWeb,
  expectAccessible,
  goTo,
  press,
  seeHeading,
  submit,
} from "../../support/browser.ts";

describeWeb("Web app: known devices", {}, (web) => {
  test("a user sees the devices that have signed in, and can remove one", async () => {
    const user = await web.app.addVerifiedUser();
    await web.app.signIn(user);
    const tab = await web.signIn(user);
    const { page } = tab;
    await goTo(page, "/account/sessions");
    await seeHeading(page, "Known devices");
    const forget = page.getByRole("button", { name: "Remove" });
    await expect.poll(() => forget.count()).toBe(2);
    await expectAccessible(tab);
    await forget.last().click();
    await expect.poll(() => forget.count()).toBe(1);
  });

  test("the link of the e-mail about a new device ends every session once the address is typed", async () => {
    const user = await web.app.addVerifiedUser();
    await web.app.signIn(user);
    await web.signIn(user);
    const { link = "" } = await web.app.mail.emailTo(user.email, /New sign-in/);
    const tab = await web.open(link);
    const { page } = tab;
    await seeHeading(page, "This wasn’t me");
    await expectAccessible(tab);
    const address = (email: string) => ({ "E-mail address": email });
    await submit(page, address("other@example.com"), "Secure my account", "Enter the address");
    await submit(page, address(user.email), "Secure my account", "All sessions have ended");
    const open = "select id from sessions where user_id = ? and revoked_at is null";
    expect(await web.app.sql(open, [user.id])).toEqual([]);
    expect((await web.app.login(user.email)).status).toBe(401);
  });

  test("the second link of the verification e-mail deletes the account", async () => {
    const user = await web.app.addUser();
    const { text = "" } = await web.app.mail.emailTo(user.email);
    const [link = ""] = /http\S+not-me\S+/.exec(text) ?? [];
    const { page } = await web.open(link);
    await seeHeading(page, "I did not create this account");
    await submit(page, { "E-mail address": user.email }, "Delete the account", "has been deleted");
    await press(page, "Sign in");
    expect(await web.app.sql("select id from users where id = ?", [user.id])).toEqual([]);
  });
});
