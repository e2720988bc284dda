import { expect, test } from "vitest";
import { describeInBrowsers, expectAccessible, fillIn, goTo, screenshot } from "../../support/web-fixture.ts";

const FILL_STORAGE = `for (let size = 1e6; size >= 10; size /= 10) {
  try { for (let i = 0; ; i++) localStorage.setItem(size + "-" + i, "x".repeat(size)); } catch {}
}`;

describeInBrowsers("Web app: chat", (web) => {
  test("streams a reply, shows hostile Markdown harmlessly, and keeps the conversation", async () => {
    const tab = await web.signIn(await web.app.addUser());
    const { page } = tab;
    await fillIn(page, {
      Message:
        "**bold** <img src=x onerror=alert(1)> [link](javascript:alert(1)) [out](//example.com) <script>alert(1)</script>",
    });
    await page.getByRole("button", { name: "Send" }).click();
    const reply = page.locator(".markdown");
    await reply.getByText("couldn't agree more").waitFor();
    expect(await reply.locator("strong").textContent()).toBe("bold");
    expect(await reply.locator("img, script, [onerror], [href^=javascript]").count()).toBe(0);
    expect(await reply.locator("[target=_blank][rel='noopener noreferrer'][href]").innerText()).toBe("out");
    await expectAccessible(tab);
    await page.evaluate(`for (const [key, value] of Object.entries(localStorage))
      localStorage[key] = value.replaceAll("**bold**", "\\\\n\\\\n" + ">".repeat(20_000))`); // more than Markdown can nest
    await page.reload();
    await page.locator(".markdown").getByText("couldn't agree more").waitFor();
    await page.getByRole("button", { name: "New conversation" }).click();
    await page.getByText("What would you like to know?").waitFor();
    await fillIn(page, { Message: "Why is the sky blue?" });
    await page.keyboard.press("Enter");
    await page.locator(".markdown").getByText("sky blue").waitFor();
    await screenshot(tab, "chat");
    await page.getByRole("button", { name: "Delete this conversation" }).first().click();
    await page.getByText("Why is the sky blue?").waitFor({ state: "detached" });
    await goTo(page, "/usage");
    await page.getByRole("img", { name: "Tokens per day" }).locator("canvas").waitFor();
    await page.getByText("As a table").click();
    await page.getByRole("cell", { name: "provider-a" }).first().waitFor();
    await expectAccessible(tab);
    await screenshot(tab, "usage");
    expect(tab.problems).toEqual([]);
  });

  test("two tabs keep the conversations of both, also when the storage is full", async () => {
    const context = await web.newBrowser();
    const one = await web.signIn(await web.app.addUser(), context);
    const other = await web.open("/", context);
    await other.page.getByLabel("Message").waitFor(); // it has read the stored conversations: there are none
    for (const [{ page }, message] of [
      [one, "From the one"],
      [other, "From the other"],
    ] as const) {
      await fillIn(page, { Message: message });
      await page.getByRole("button", { name: "Send" }).click();
      await page.getByRole("button", { name: "Try again" }).waitFor(); // the reply is complete and stored
    }
    await one.page.reload();
    const kept = one.page.getByRole("navigation", { name: "Conversations" }).getByRole("listitem");
    await expect
      .poll(async () => (await kept.allInnerTexts()).map((text) => text.trim()))
      .toEqual(["From the other", "From the one"]);
    await one.page.evaluate(FILL_STORAGE);
    await one.page.getByRole("button", { name: "New conversation" }).click();
    await fillIn(one.page, { Message: "The last" });
    await one.page.getByRole("button", { name: "Send" }).click();
    await one.page.getByRole("button", { name: "Try again" }).waitFor();
    await one.page.reload();
    await expect.poll(() => kept.first().innerText()).toContain("The last");
    expect([...one.problems, ...other.problems]).toEqual([]);
  });

  test("stops a stream, and repeats a reply that failed", async () => {
    const tab = await web.signIn(await web.app.addUser());
    const { page } = tab;
    await fillIn(page, { Message: "case: silent" });
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("Thinking").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText("Stopped.").waitFor();
    expect(await page.getByRole("alert").count()).toBe(0); // the person wanted it
    await page.getByRole("button", { name: "New conversation" }).click();
    await fillIn(page, { Message: "case: bad-key" });
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByRole("alert").filter({ hasText: "provider-a failed: refused the key." }).waitFor();
    await page.getByRole("button", { name: "New conversation" }).click();
    await fillIn(page, { Message: "case: error-event" });
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("alert").waitFor();
    expect(await page.locator(".log > article").count()).toBe(2);
    await page.getByText("Settings").click();
    await page.getByLabel("Provider").selectOption("provider-b");
    await fillIn(page, { Message: "Hello" });
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator(".markdown").getByText("couldn't agree more").waitFor();
    await fillIn(page, { Message: "case: silent-midway" });
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Delete this conversation" }).last().click(); // another one
    await page.getByRole("button", { name: "Stop" }).click();
    expect(tab.problems).toEqual([]);
  });

  test("follows a long reply with Stop in view, and keeps its text after leaving the page", async () => {
    const tab = await web.signIn(await web.app.addUser());
    const { page } = tab;
    const boxOf = async (name: string) =>
      (await page.getByRole("button", { name }).boundingBox()) ?? { y: 9_999, height: 0 };
    await fillIn(page, { Message: Array.from({ length: 40 }, (_, i) => `Line ${i}`).join("\n\n") });
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("couldn't agree more").waitFor();
    await fillIn(page, { Message: "case: silent-midway" });
    await page.keyboard.press("Enter");
    const replies = page.locator(".markdown");
    await expect.poll(() => replies.count()).toBe(2);
    const wraps = await page.evaluate("getComputedStyle(document.querySelector('.markdown')).whiteSpace");
    expect(wraps).toBe("normal");
    const { y, height } = await boxOf("Stop");
    expect(y + height).toBeLessThanOrEqual(720);
    await expect
      .poll(() => page.evaluate("document.documentElement.scrollHeight - scrollY - innerHeight"))
      .toBeLessThan(2);
    const before = await replies.last().textContent();
    await page.getByRole("link", { name: "Profile" }).click();
    await page.getByRole("heading", { name: "Profile" }).waitFor();
    await page.goBack();
    await page.getByText("Stopped.").waitFor();
    expect(await replies.last().textContent()).toBe(before);
    expect(tab.problems).toEqual([]);
  });

  test.skipIf(web.name === "Firefox")("works without https, and dates usage by UTC days everywhere", async () => {
    const user = await web.app.addUser();
    const context = await web.newBrowser({ timezoneId: "America/Los_Angeles", locale: "de-DE" });
    const { page } = await web.open(`${web.app.url.replace("127.0.0.1", "plain-http.test")}/`, context);
    await fillIn(page, { "E-Mail-Adresse": user.email, Passwort: user.password });
    await page.keyboard.press("Enter");
    await fillIn(page, { Nachricht: "Hello" });
    await page.getByRole("button", { name: "Senden" }).click();
    await page.locator(".markdown").getByText("couldn't agree more").waitFor();
    await goTo(page, "/usage");
    const chart = page.getByRole("img", { name: "Tokens pro Tag" });
    const { width = 0, height = 0 } = (await chart.locator(".u-over").boundingBox()) ?? {};
    await chart.locator(".u-over").hover({ position: { x: width - 2, y: height / 2 } });
    const today = new Intl.DateTimeFormat("de", { day: "numeric", month: "short", timeZone: "UTC" }).format(new Date());
    await chart.getByText(today, { exact: true }).waitFor();
  });
});
