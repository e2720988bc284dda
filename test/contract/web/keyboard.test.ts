import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  describeWeb,
  expectAccessible,
  filterBy,
  goTo,
  press,
  see,
  seeHeading,
  signOut,
} from "../../support/browser.ts";

/** Presses Tab until an element with this name has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  const focused = page.locator(":focus");
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press("Tab");
    if ((await focused.count()) === 0) continue;
    if ((await focused.ariaSnapshot()).split("\n")[0]?.includes(`"${name}"`)) return;
  }
  throw new Error(`Tab does not lead to ${name}`);
}
/** The elements with a visible transition or animation. */
const MOVING = `[...document.querySelectorAll("*")].filter((element) => {
  const { transitionDuration, animationName, animationDuration } = getComputedStyle(element);
  return Number.parseFloat(transitionDuration) > 0 || (animationName !== "none" && Number.parseFloat(animationDuration) > 0.01);
}).map(({ outerHTML }) => outerHTML)`;
const focusIsOn = (page: Page, name: string) =>
  expect.poll(() => page.locator(":focus").ariaSnapshot()).toContain(name);

describeWeb("Web app: keyboard, motion, history", {}, (web) => {
  test("a sign-in needs only the keyboard, and moves the focus to the message", async () => {
    const user = await web.app.addUser();
    const { page } = await web.open("/sign-in");
    await seeHeading(page, "Sign in");
    await tabTo(page, "E\u2011mail address");
    await page.keyboard.type(user.email);
    await tabTo(page, "Password");
    await page.keyboard.type(user.password);
    await page.keyboard.press("Enter");
    await focusIsOn(page, 'textbox "Message"');
  });

  test("a link skips the menu", async () => {
    const { page } = await web.signInUser();
    await goTo(page, "/account/profile");
    await focusIsOn(page, 'heading "Profile"');
    await page.reload();
    await seeHeading(page, "Profile");
    await page.keyboard.press("Tab");
    await focusIsOn(page, "Skip to content");
    await page.keyboard.press("Enter");
    await focusIsOn(page, 'heading "Profile"');
  });

  test("a reply can be requested and stopped with the keyboard only", async () => {
    const { page } = await web.signInUser();
    await goTo(page, "/");
    await focusIsOn(page, 'textbox "Message"');
    await page.keyboard.type("case: silent");
    await page.keyboard.press("Enter");
    await see(page, "Thinking");
    await tabTo(page, "Stop");
    await page.keyboard.press("Enter");
    await see(page, "Stopped.");
    await focusIsOn(page, "Send");
    expect(await page.title()).toBe("case: silent · Gatehouse");
  });

  test("Escape stops a reply", async () => {
    const { page } = await web.signInUser();
    await goTo(page, "/");
    await focusIsOn(page, 'textbox "Message"');
    await page.keyboard.type("case: silent");
    await page.keyboard.press("Enter");
    await see(page, "Thinking");
    await page.keyboard.press("Escape");
    await see(page, "Stopped.");
  });

  test("Escape closes a dialog and returns the focus", async () => {
    const { page } = await web.signInUser();
    await goTo(page, "/account/data");
    await focusIsOn(page, 'heading "Your data"');
    await tabTo(page, "Delete the account");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await expect.poll(() => page.evaluate("document.activeElement.name")).toBe("password");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await focusIsOn(page, 'button "Delete the account"');
  });

  test("the account menu lists the shortcuts in a dialog", async () => {
    const tab = await web.signInUser();
    const { page } = tab;
    await page.getByLabel("Message").waitFor(); // it takes the focus
    await page.getByRole("button", { name: /^Account menu/ }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("menuitem", { name: "Shortcuts" }).press("Enter");
    const dialog = page.getByRole("dialog", { name: "Shortcuts" });
    await see(dialog, "Search everywhere");
    await expectAccessible(tab);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  });

  /** Opens the list of users, filtered down to one of them. */
  async function openFilteredList() {
    const user = await web.app.addUser();
    const { page } = await web.signInAdmin();
    await goTo(page, "/admin/users");
    await page.getByRole("searchbox").fill(user.email);
    await filterBy(page, "Role", "User");
    await see(page, "Entries: 1");
    return { user, page };
  }

  test("a list keeps its filters after going back and forward, and after a reload", async () => {
    const { user, page } = await openFilteredList();
    await page.getByRole("link", { name: user.email }).click();
    await seeHeading(page, user.email);
    for (const way of [() => page.goBack(), () => page.reload()]) {
      await way();
      await see(page, "Entries: 1");
      expect(await page.getByRole("searchbox").inputValue()).toBe(user.email);
    }
    await page.goForward();
    await seeHeading(page, user.email);
  });

  test("after a sign-out, going back shows no data", async () => {
    const { user, page } = await openFilteredList();
    await signOut(page);
    await seeHeading(page, "Sign in");
    await page.goBack();
    await page.waitForURL(/admin\/users/);
    await seeHeading(page, "Sign in");
    expect(await page.getByText(user.email).count()).toBe(0);
  });

  test.skipIf(web.name === "Firefox")(
    "nothing moves for people who prefer reduced motion",
    async () => {
      for (const reducedMotion of ["no-preference", "reduce"] as const) {
        const { page } = await web.signIn(
          await web.app.addUser(),
          await web.newBrowser({ reducedMotion }),
        );
        await goTo(page, "/account/security");
        await press(page, "Set up");
        await page.getByRole("dialog").waitFor();
        const moving = (await page.evaluate(MOVING)) as string[];
        if (reducedMotion === "reduce") expect(moving).toEqual([]);
        else expect(moving.length).toBeGreaterThan(5);
      }
    },
  );
});
