import { expect, test } from "vitest";
import {
  describeWeb,
  enter,
  goTo,
  press,
  say,
  see,
  seeAlert,
  seeHeading,
  submit,
} from "../../support/browser.ts";

/** What every run tests in Firefox. After each test its console must have no error. */
describeWeb("Web app: main pages", { browsers: ["Firefox"] }, (web) => {
  test("a reply is streamed, can be stopped, and is there after a reload", async () => {
    const { page } = await web.signInUser();
    await say(page, "Why is the sky blue?");
    await see(page.locator(".markdown"), "sky blue");
    await page.getByRole("button", { name: "Try again" }).waitFor(); // the reply is complete and stored
    await page.reload();
    await see(page.locator(".markdown"), "sky blue");
    await press(page, "New conversation");
    await say(page, "case: silent");
    await see(page, "Thinking");
    await press(page, "Stop", "Stopped.");
  });

  test("a user signs in after a wrong password, and sees the security of the account", async () => {
    const user = await web.app.addVerifiedUser();
    const { page } = await web.open("/sign-in");
    await seeHeading(page, "Sign in");
    await enter(page, { ...user, password: "Wrong-password-1" });
    await seeAlert(page, "wrong");
    await submit(page, { Password: user.password }, "Sign in"); // the address is still there
    await page.getByRole("button", { name: /^Account menu/ }).waitFor({ state: "attached" });
    await goTo(page, "/account/security");
    await seeHeading(page, "Security");
    await press(page, "Set up");
    await page.getByRole("dialog").waitFor();
  });

  test("an administrator sees the overview with charts, and finds, opens and edits a user", async () => {
    const user = await web.app.addVerifiedUser({ name: "Fiona Fox" });
    const { page } = await web.signInAdmin();
    await goTo(page, "/admin");
    await seeHeading(page, "Overview");
    await page.getByRole("img", { name: "Sign-ins" }).locator("canvas").waitFor();
    await press(page, "24 h");
    await expect.poll(() => new URL(page.url()).searchParams.get("period")).toBe("24h");
    await goTo(page, "/admin/users");
    await seeHeading(page, "Users");
    await page.getByRole("searchbox").fill("fiona");
    await page.getByRole("link", { name: "Fiona Fox" }).click();
    await seeHeading(page, user.email);
    await submit(page, { Name: "Fiona Foxglove" }, "Save", "Saved.");
  });
});
