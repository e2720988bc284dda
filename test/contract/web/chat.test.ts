import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  BOTH,
  CHROMIUM,
  describeWeb,
  expectAccessible,
  fillIn,
  goTo,
  press,
  say,
  screenshot,
  see,
  seeAlert,
  seeHeading,
  submit,
  type Tab,
} from "../../support/browser.ts";

const FILL_STORAGE = `for (let size = 1e6; size >= 10; size /= 10) {
  try { for (let i = 0; ; i++) localStorage.setItem(size + "-" + i, "x".repeat(size)); } catch {}
}`;

const HOSTILE =
  "**bold** <img src=x onerror=alert(1)> [link](javascript:alert(1)) [out](//example.com) <script>alert(1)</script>";

describeWeb("Web app: chat", { browsers: BOTH }, (web) => {
  test("streams a reply, shows hostile Markdown harmlessly, and keeps the conversation", async () => {
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
    await page.evaluate(`for (const [key, value] of Object.entries(localStorage))
      localStorage[key] = value.replaceAll("**bold**", "\\\\n\\\\n" + ">".repeat(20_000))`); // more than Markdown can nest
    await page.reload();
    await see(page.locator(".markdown"), "couldn't agree more");
    await press(page, "New conversation", "What would you like to know?");
    await fillIn(page, { Message: "Why is the sky blue?" });
    await page.keyboard.press("Enter");
    await see(page.locator(".markdown"), "sky blue");
    await screenshot(tab, "chat");
    await page.getByRole("button", { name: "Delete this conversation" }).first().click();
    await page.getByText("Why is the sky blue?").waitFor({ state: "detached" });
    await goTo(page, "/usage");
    await page.getByRole("img", { name: "Tokens per day" }).locator("canvas").waitFor();
    await page.getByText("As a table").click();
    await page.getByRole("cell", { name: "provider-a" }).first().waitFor();
    await expectAccessible(tab);
    await screenshot(tab, "usage");
  });

  test("two tabs keep each other's conversations, even when the storage is full", async () => {
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

  test("stops a stream, and repeats a reply that failed", async () => {
    const { page } = await web.signInUser();
    await say(page, "case: silent");
    await see(page, "Thinking");
    await press(page, "Stop", "Stopped.");
    expect(await page.getByRole("alert").count()).toBe(0); // the person wanted it
    await press(page, "New conversation");
    await say(page, "case: bad-key");
    await seeAlert(page, "provider-a failed: refused the key.");
    await press(page, "New conversation");
    await say(page, "case: error-event");
    await page.getByRole("alert").waitFor();
    await press(page, "Try again");
    await page.getByRole("alert").waitFor();
    expect(await page.locator(".log > article").count()).toBe(2);
    await page.getByText("Settings").click();
    await page.getByLabel("Provider").selectOption("provider-b");
    await say(page, "Hello");
    await see(page.locator(".markdown"), "couldn't agree more");
    await say(page, "case: silent-midway");
    await page.getByRole("button", { name: "Delete this conversation" }).last().click(); // another one
    await press(page, "Stop");
  });

  test("follows a long reply with Stop in view, and keeps its text after leaving the page", async () => {
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
      page.evaluate("document.documentElement.scrollHeight - scrollY - innerHeight");
    await expect.poll(below).toBeLessThan(2);
    const before = await replies.last().textContent();
    await page.getByRole("link", { name: "Profile" }).click();
    await seeHeading(page, "Profile");
    await page.goBack();
    await see(page, "Stopped.");
    expect(await replies.last().textContent()).toBe(before);
  });

  test.skipIf(web.name === "Firefox")(
    "works without https, and dates usage by UTC days everywhere",
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
      await goTo(page, "/usage");
      const chart = page.getByRole("img", { name: "Tokens pro Tag" });
      const { width = 0, height = 0 } = (await chart.locator(".u-over").boundingBox()) ?? {};
      await chart.locator(".u-over").hover({ position: { x: width - 2, y: height / 2 } });
      const today = new Intl.DateTimeFormat("de", {
        day: "numeric",
        month: "short",
        timeZone: "UTC",
      }).format(new Date());
      await chart.getByText(today, { exact: true }).waitFor();
      expect(problems.splice(0)).toEqual([expect.stringContaining("Cross-Origin-Opener-Policy")]); // needs https
    },
  );
});

/** A server on which one provider has no key. */
const WITHOUT_KEY = { browsers: CHROMIUM, env: { MISTRAL_API_KEY: "" } };

describeWeb("Web app: chat with a provider that is not set up", WITHOUT_KEY, (web) => {
  /** Whether the server says of each provider that it has a key: it may lose it meanwhile. */
  const answerProviders = (page: Page, configured: boolean) =>
    page.route("**/ai/providers", async (route) => {
      const response = await route.fetch();
      const providers: object[] = await response.json();
      await route.fulfill({ response, json: providers.map((each) => ({ ...each, configured })) });
    });
  const settingsOf = async (page: Page) => {
    await page.locator("details > summary").first().click();
    return page.locator("details select").first();
  };

  test("offers only providers that are set up", async () => {
    const { page } = await web.signInUser();
    const settings = await settingsOf(page);
    const textsOf = async (state: string) =>
      (await settings.locator(`option:${state}`).allInnerTexts()).map((text) => text.trim());
    expect(await textsOf("enabled")).toEqual(["provider-a", "provider-b", "provider-c"]);
    expect(await textsOf("disabled")).toEqual(["provider-d (not set up)"]);
  });

  test("says that no provider is set up, and sends nothing", async () => {
    const { page } = await web.signInUser();
    await answerProviders(page, false);
    await page.reload();
    await see(page, "No AI provider is set up here.");
    await fillIn(page, { Message: "Hello" });
    await page.keyboard.press("Enter");
    expect(await page.getByRole("button", { name: "Send" }).isDisabled()).toBe(true);
    expect(await page.locator(".log > article").count()).toBe(0);
  });

  test("a stored conversation whose provider is no longer set up can be read, and continued with another provider", async () => {
    const { page } = await web.signInUser();
    await say(page, "Hello");
    await page.getByRole("button", { name: "Try again" }).waitFor(); // complete and stored
    await page.evaluate(`for (const [key, value] of Object.entries(localStorage))
      localStorage[key] = value.replaceAll("provider-a", "provider-d")`);
    await page.reload();
    await see(page, "The provider of this conversation is not set up here.");
    await see(page.locator(".markdown"), "couldn't agree more");
    expect(await page.getByRole("button", { name: "Try again" }).count()).toBe(0);
    await (await settingsOf(page)).selectOption("provider-b");
    await say(page, "Hello again");
    await expect.poll(() => page.locator(".markdown").count()).toBe(2);
  });

  const READERS = [
    { whom: "a user", admin: false },
    { whom: "an administrator", admin: true },
  ];
  test.for(READERS)(
    "shows $whom a failure in the language of the page, with details for administrators only",
    async ({ admin }) => {
      const { page } = await web.signIn(await web.app.addUser(admin ? { role: "admin" } : {}));
      await press(page, "Deutsch");
      await answerProviders(page, true); // the key is taken away after the list was read
      await page.reload();
      await (await settingsOf(page)).selectOption("provider-d");
      await submit(page, { Nachricht: "Hallo" }, "Senden");
      const alert = page.getByRole("alert");
      await seeAlert(page, "Dieser Anbieter ist nicht eingerichtet.");
      expect(/MISTRAL_API_KEY/.test(await alert.innerText())).toBe(admin);
      await press(page, "Neue Unterhaltung");
      await page.locator("details select").first().selectOption("provider-a");
      await submit(page, { Nachricht: "case: bad-key" }, "Senden");
      await seeAlert(page, "Der KI-Anbieter provider-a ist gescheitert: Schlüssel abgelehnt.");
      await press(page, "English");
      await seeAlert(page, "The AI provider provider-a failed: refused the key.");
    },
  );

  test("does not show a failure message that an earlier version has stored", async () => {
    const user = await web.app.addUser();
    const context = await web.newBrowser();
    const turn = { role: "assistant", content: "", problem: "MISTRAL_API_KEY is missing." };
    const turns = [{ role: "user", content: "Hello" }, turn];
    const kept = [
      { id: "1", provider: "provider-a", model: "", system: "", temperature: "", turns },
    ];
    await context.addInitScript(
      `localStorage["gatehouse-conversations-${user.id}"] = ${JSON.stringify(JSON.stringify(kept))}`,
    );
    const { page } = await web.signIn(user, context);
    await seeAlert(page, "The reply is not complete.");
    expect(await page.getByText("MISTRAL_API_KEY").count()).toBe(0);
  });
});
