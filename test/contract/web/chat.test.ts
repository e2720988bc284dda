import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  CHROMIUM,
  changeKept,
  chooseModel,
  deleteConversation,
  describeWeb,
  enter,
  expectAccessible,
  fillIn,
  goTo,
  press,
  say,
  see,
  seeAlert,
  seeHeading,
  signOut,
  submit,
  type Tab,
} from "../../support/browser.ts";

const FILL_STORAGE = `for (let size = 1e6; size >= 10; size /= 10) {
  try { for (let i = 0; ; i++) localStorage.setItem(size + "-" + i, "x".repeat(size)); } catch {}
}`;

const HOSTILE =
  "**bold** <img src=x onerror=alert(1)> [link](javascript:alert(1)) [out](//example.com) <script>alert(1)</script>";

describeWeb("Web app: chat", {}, (web) => {
  test("a reply is streamed, hostile Markdown is harmless, and the conversation is stored", async () => {
    const tab = await web.signInUser();
    const { page } = tab;
    await say(page, HOSTILE);
    const reply = page.locator(".markdown");
    await see(reply, "couldn't agree more");
    expect(await reply.locator("strong").textContent()).toBe("bold");
    expect(await reply.locator("img, script, [onerror], [href^=javascript]").count()).toBe(0);
    expect(
      await reply.locator("[target=_blank][rel='noopener noreferrer'][href]").innerText(),
    ).toBe("out");
    await expectAccessible(tab);
    await page.getByRole("button", { name: "Try again" }).waitFor(); // the reply is complete and stored
    await see(page, /^\d+ tokens · /);
    await changeKept(page, "**bold**", `\\n\\n${">".repeat(20_000)}`); // more than Markdown can nest
    await page.reload();
    await see(page.locator(".markdown"), "couldn't agree more");
    await press(page, "New conversation", "What would you like to know?");
    await fillIn(page, { Message: "Why is the sky blue?" });
    await page.keyboard.press("Enter");
    await see(page.locator(".markdown"), "sky blue");
    await deleteConversation(page);
    await page.getByText("Why is the sky blue?").waitFor({ state: "detached" });
    await press(page, "Undo");
    await see(page.locator(".markdown"), "sky blue");
    await goTo(page, "/account/usage");
    await page.getByRole("img", { name: "Tokens per day" }).locator("canvas").waitFor();
    await page.getByText("As a table").click();
    await page.getByRole("cell", { name: "provider-a" }).first().waitFor();
    await expectAccessible(tab);
  });

  test("the reasoning of a model is shown in a collapsed section", async () => {
    const tab = await web.signInUser();
    const { page } = tab;
    await chooseModel(page, "model-c-1");
    await say(page, "case: thinking");
    await page.getByText("Reasoning", { exact: true }).click();
    await see(page, "Let me see.");
    await expectAccessible(tab);
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await page.reload();
    await page.getByText("Reasoning", { exact: true }).waitFor(); // it is kept with the reply
  });

  test("two tabs keep each other's conversations, even if the storage is full", async () => {
    const context = await web.newBrowser();
    const one = await web.signIn(await web.app.addUser(), context);
    const other = await web.open("/", context);
    await other.page.getByLabel("Message").waitFor(); // it has read the stored conversations: there are none
    const converse = async ({ page }: Tab, message: string) => {
      await say(page, message);
      await page.getByRole("button", { name: "Try again" }).waitFor(); // the reply is complete and stored
    };
    await converse(one, "From the one");
    await converse(other, "From the other");
    await one.page.reload();
    const kept = one.page.getByRole("navigation", { name: "Conversations" }).getByRole("listitem");
    const names = async () => (await kept.allInnerTexts()).map((text) => text.trim());
    await expect.poll(names).toEqual(["From the other", "From the one"]);
    await one.page.evaluate(FILL_STORAGE);
    await press(one.page, "New conversation");
    await converse(one, "The last");
    await one.page.reload();
    await expect.poll(() => kept.first().innerText()).toContain("The last");
  });

  test("a stream can be stopped, and a failed reply repeated", async () => {
    const { page, problems } = await web.signInUser();
    await say(page, "case: silent");
    await see(page, "Thinking");
    await press(page, "Stop", "Stopped.");
    expect(await page.getByRole("alert").count()).toBe(0); // the person wanted it
    await press(page, "New conversation");
    await say(page, "case: bad-key");
    await seeAlert(page, "provider-a failed: refused the key.");
    problems.length = 0; // the browser's line about the 500
    await press(page, "New conversation");
    await say(page, "case: error-event");
    await page.getByRole("alert").waitFor();
    await press(page, "Try again");
    await page.getByRole("alert").waitFor();
    expect(await page.locator(".log article").count()).toBe(2);
    await see(page, "2 / 2");
    await chooseModel(page, "model-b-1");
    await say(page, "Hello");
    await see(page.locator(".markdown"), "couldn't agree more");
    await say(page, "case: silent-midway");
    await page
      .getByRole("navigation", { name: "Conversations" })
      .getByText("case: bad-key")
      .click();
    await deleteConversation(page); // another one than that which comes
    await page
      .getByRole("navigation", { name: "Conversations" })
      .getByText("case: error-event")
      .click();
    await press(page, "Stop", "Stopped.");
  });

  test("the message field grows with its text, up to a part of the page", async () => {
    const { page } = await web.signInUser();
    const field = page.getByLabel("Message", { exact: true });
    const heightOf = async (text: string) => {
      await field.fill(text);
      return (await field.boundingBox())?.height ?? 0;
    };
    const one = await heightOf("One line");
    const five = await heightOf("Line\n".repeat(5));
    expect(five).toBeGreaterThan(one * 3);
    expect(await heightOf("Line\n".repeat(90))).toBeLessThan(400);
    expect(await heightOf("")).toBeCloseTo(one, 0);
  });

  test("the view follows a long reply with Stop visible, and the reply continues while another page is open", async () => {
    const { page } = await web.signInUser();
    await say(page, Array.from({ length: 40 }, (_, i) => `Line ${i}`).join("\n\n"));
    await see(page, "couldn't agree more");
    await say(page, "case: silent-midway");
    const replies = page.locator(".markdown");
    await expect.poll(() => replies.count()).toBe(2);
    const wraps = await page.evaluate(
      "getComputedStyle(document.querySelector('.markdown')).whiteSpace",
    );
    expect(wraps).toBe("normal");
    const stop = await page.getByRole("button", { name: "Stop" }).boundingBox();
    expect((stop?.y ?? 9_999) + (stop?.height ?? 0)).toBeLessThanOrEqual(720);
    const below = () =>
      page.evaluate(
        "(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight)(document.querySelector('.log'))",
      );
    await expect.poll(below).toBeLessThan(2);
    const before = await replies.last().textContent();
    await goTo(page, "/account/profile");
    await seeHeading(page, "Profile");
    await page.goBack();
    await press(page, "Stop", "Stopped."); // it went on meanwhile
    expect(await replies.last().textContent()).toBe(before);
  });

  test.skipIf(web.name === "Firefox")(
    "the chat works without https, and usage is dated by UTC days everywhere",
    async () => {
      const user = await web.app.addUser();
      const context = await web.newBrowser({ timezoneId: "America/Los_Angeles", locale: "de-DE" });
      const { page, problems } = await web.open(
        `${web.app.url.replace("127.0.0.1", "plain-http.test")}/`,
        context,
      );
      await fillIn(page, { "E-Mail-Adresse": user.email, Passwort: user.password });
      await page.keyboard.press("Enter");
      await submit(page, { Nachricht: "Hello" }, "Senden");
      await see(page.locator(".markdown"), "couldn't agree more");
      await goTo(page, "/account/usage");
      const chart = page.getByRole("img", { name: "Tokens pro Tag" });
      const { width = 0, height = 0 } = (await chart.locator(".u-over").boundingBox()) ?? {};
      await chart.locator(".u-over").hover({ position: { x: width - 2, y: height / 2 } });
      const today = new Intl.DateTimeFormat("de", {
        day: "numeric",
        month: "short",
        timeZone: "UTC",
      }).format(new Date());
      await chart.locator("..").getByText(today, { exact: true }).waitFor();
      expect(problems.splice(0)).toEqual([expect.stringContaining("Cross-Origin-Opener-Policy")]); // needs https
    },
  );
});

describeWeb("Web app: kept conversations", { browsers: CHROMIUM }, (web) => {
  const listOf = (page: Page) =>
    page.getByRole("navigation", { name: "Conversations" }).getByRole("listitem");

  test("an unfinished reply is stored: a reload shows it as interrupted, and it can be tried again", async () => {
    const { page } = await web.signInUser();
    await say(page, "case: silent-midway");
    await page.locator(".markdown").waitFor();
    const before = await page.locator(".markdown").textContent();
    await page.waitForTimeout(1_500); // it is kept once a second
    await page.reload();
    await seeAlert(page, "The reply was interrupted.");
    expect(await page.locator(".markdown").textContent()).toBe(before);
    await press(page, "Try again");
    await page.getByRole("button", { name: "Stop" }).waitFor();
    await press(page, "Stop", "Stopped.");
    await see(page, "2 / 2");
    await press(page, "Earlier reply");
    await seeAlert(page, "The reply was interrupted.");
  });

  test("another tab can stop a reply, cannot send during it, and shows that its tab was closed", async () => {
    const context = await web.newBrowser();
    const one = await web.signIn(await web.app.addUser(), context);
    await say(one.page, "case: silent-midway");
    await one.page.locator(".markdown").waitFor();
    const { page } = await web.open(new URL(one.page.url()).pathname, context);
    await page.getByRole("button", { name: "Stop" }).waitFor();
    await fillIn(page, { Message: "Not now" });
    await page.keyboard.press("Enter");
    expect(await page.locator(".log article").count()).toBe(2);
    await page.keyboard.press("Escape");
    await see(page, "Stopped.");
    await see(one.page, "Stopped.");
    await one.page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("button", { name: "Stop" }).waitFor();
    await one.page.close();
    await seeAlert(page, "The reply was interrupted.");
  });

  test("conversations are deleted at the sign-out, unless they are to stay on the device", async () => {
    const user = await web.app.addUser();
    const context = await web.newBrowser();
    const { page } = await web.signIn(user, context);
    const databases = () => page.evaluate("indexedDB.databases().then((all) => all.length)");
    await say(page, "Hello");
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await signOut(page);
    await seeHeading(page, "Sign in");
    await expect.poll(databases).toBe(0);
    await enter(page, user);
    await say(page, "Stay here");
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await goTo(page, "/account/data");
    await page.getByLabel("Keep conversations on this device").check();
    await signOut(page);
    await seeHeading(page, "Sign in");
    await enter(page, user);
    await expect.poll(() => listOf(page).allInnerTexts()).toEqual(["Stay here"]);
  });
});
