import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  CHROMIUM,
  changeKept,
  chooseLanguage,
  chooseModel,
  describeWeb,
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
} from "../../support/browser.ts";

describeWeb("Web app: conversations of the chat", { browsers: CHROMIUM }, (web) => {
  const listOf = (page: Page) =>
    page.getByRole("navigation", { name: "Conversations" }).getByRole("listitem");

  /** What a call has used, as the API says. */
  const usageOf = (body: string): { prompt_tokens: number; completion_tokens: number } =>
    body
      .split("\n")
      .filter((line) => line.startsWith("data: {"))
      .map((line) => JSON.parse(line.slice("data: ".length)).usage)
      .findLast(Boolean);

  test("a reply that has ended at its maximum length grows in place, with the tokens of both calls", async () => {
    const { page } = await web.signInUser();
    const answered = () => page.waitForResponse("**/v1/chat/completions");
    const first = answered();
    await say(page, "case: at-maximum");
    await see(page, "The reply has reached its maximum length.");
    const begun = (await page.locator(".markdown").textContent()) ?? "";
    const second = answered();
    await press(page, "Continue");
    await see(page.locator(".markdown"), "couldn't agree more");
    await page
      .getByText("The reply has reached its maximum length.")
      .waitFor({ state: "detached" });
    const whole = (await page.locator(".markdown").textContent()) ?? "";
    expect(whole.startsWith(begun.slice(0, begun.lastIndexOf(" ") + 1))).toBe(true);
    expect(await page.locator(".log article").count()).toBe(2);
    const used = await Promise.all(
      [first, second].map(async (one) => usageOf(await (await one).text())),
    );
    const [read, written] = (["prompt_tokens", "completion_tokens"] as const).map((name) =>
      used.reduce((sum, each) => sum + each[name], 0),
    );
    await page.getByTitle(`${read} tokens read, ${written} written`).waitFor();
    await page.reload();
    await see(page.locator(".markdown"), "couldn't agree more");
    await page.getByTitle(`${read} tokens read, ${written} written`).waitFor();
  });

  test("a reply that grows in place survives a reload, without tokens that nobody knows", async () => {
    const { page } = await web.signInUser();
    await say(page, "case: at-maximum");
    await see(page, "The reply has reached its maximum length.");
    await see(page, /^\d+ tokens/);
    await page.route("**/v1/chat/completions", (route) => {
      const postData = route
        .request()
        .postData()
        ?.replace("Your last", "case: silent-midway\\nYour last");
      return route.continue({ ...(postData && { postData }) });
    });
    await press(page, "Continue");
    await see(page.locator(".markdown"), /Ω≈ç√ Grüße, 世界/);
    const before = await page.locator(".markdown").textContent();
    await page.waitForTimeout(1_500); // it is kept once a second
    await page.reload();
    await seeAlert(page, "The reply was interrupted.");
    expect(await page.locator(".markdown").textContent()).toBe(before);
    expect(await page.getByText(/^\d+ tokens/).count()).toBe(0);
    await page.unroute("**/v1/chat/completions");
    await press(page, "Continue");
    await see(page.locator(".markdown"), "couldn't agree more");
    await page.getByRole("alert").waitFor({ state: "detached" });
    expect(await page.locator(".markdown").textContent()).toContain(before?.trim());
    expect(await page.locator(".log article").count()).toBe(2);
  });

  test("two conversations stream concurrently, and another tab follows", async () => {
    const context = await web.newBrowser();
    const { page } = await web.signIn(await web.app.addUser(), context);
    await say(page, "case: silent-midway");
    await page.locator(".markdown").waitFor();
    await press(page, "New conversation");
    await say(page, "Hello");
    await see(page.locator(".markdown"), "couldn't agree more");
    await expect.poll(() => page.getByRole("button", { name: "Stop" }).count()).toBe(0);
    await listOf(page)
      .first()
      .getByLabel("Thinking")
      .or(listOf(page).nth(1).getByLabel("Thinking"))
      .waitFor();
    const other = await web.open("/", context);
    await listOf(other.page).getByText("case: silent-midway").click();
    await other.page.locator(".markdown").waitFor();
    expect(await other.page.getByRole("alert").count()).toBe(0); // it comes elsewhere
  });

  test("Escape closes overlays before it stops a reply, and the message field has the focus after each navigation", async () => {
    const { page } = await web.signInUser();
    const field = page.getByLabel("Message", { exact: true });
    const hasFocus = () => page.evaluate("document.activeElement?.matches('.composer textarea')");
    await say(page, "case: silent-midway");
    await page.locator(".markdown").waitFor();
    await page.getByRole("button", { name: /^Model: / }).click();
    await page.getByRole("menuitemradio").first().waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("menuitemradio").first().waitFor({ state: "detached" });
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search everywhere" }).fill("case");
    await page.keyboard.press("Escape");
    await page.getByRole("combobox").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Stop" }).waitFor(); // it still comes
    await field.focus();
    await page.keyboard.press("Escape");
    await see(page, "Stopped.");
    await fillIn(page, { Message: "not sent" });
    for (const name of ["New conversation", "New conversation"]) {
      await press(page, name);
      await expect.poll(hasFocus).toBe(true);
    }
    expect(await field.inputValue()).toBe("");
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search everywhere" }).fill("case");
    await page.getByRole("option", { name: "case: silent-midway" }).click();
    await expect.poll(hasFocus).toBe(true);
    expect(await field.inputValue()).toBe("not sent"); // it stays with its conversation
  });

  test("the model gives a title to a conversation that begins with a long message", async () => {
    const { page } = await web.signInUser();
    let asked = 0;
    await page.route("**/v1/chat/completions", async (route) => {
      if (!route.request().postData()?.includes("Give a title")) return route.fallback();
      asked += 1;
      const piece = { choices: [{ index: 0, delta: { content: '"Launch plan"' } }] };
      const body = `data: ${JSON.stringify(piece)}\n\ndata: [DONE]\n\n`;
      await route.fulfill({ contentType: "text/event-stream", body });
    });
    await say(page, "Short one");
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await press(page, "New conversation");
    await say(page, "How do I plan the launch of a small product with a team of three?");
    await expect.poll(() => listOf(page).allInnerTexts()).toEqual(["Launch plan", "Short one"]);
    expect(asked).toBe(1);
    await page.reload();
    await expect.poll(() => listOf(page).allInnerTexts()).toEqual(["Launch plan", "Short one"]);
  });

  test("signing out cancels the request for a title", async () => {
    const { page } = await web.signInUser();
    const isTitle = (body: string | null) => body?.includes("Give a title") ?? false;
    await page.route(
      "**/v1/chat/completions",
      (route) => (isTitle(route.request().postData()) ? undefined : route.fallback()), // it never ends by itself
    );
    const asked = page.waitForRequest((request) => isTitle(request.postData()));
    const cancelled = page.waitForEvent("requestfailed", (request) => isTitle(request.postData()));
    await say(page, "How do I plan the launch of a small product with a team of three?");
    await asked;
    await signOut(page);
    await seeHeading(page, "Sign in");
    expect((await cancelled).failure()?.errorText).toContain("ABORTED");
  });

  test("a formula that is wider than the reply scrolls by itself", async () => {
    const { page } = await web.signInUser();
    await say(page, "Hello");
    await page.getByRole("button", { name: "Try again" }).waitFor();
    const sum = Array.from({ length: 60 }, (_, i) => `a_{${i}} x^{${i}}`).join(" + ");
    await changeKept(page, "couldn't agree more", `$$${sum}$$`);
    await page.reload();
    await page.locator(".markdown math").waitFor();
    const excess = "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)";
    const excessOf = (selector: string) =>
      page.evaluate(`${excess}(document.querySelector("${selector}"))`);
    expect(await excessOf(".markdown .scrolls")).toBeGreaterThan(0);
    expect(await excessOf(".log")).toBe(0);
  });

  test("undoing the edit of a message restores it and what followed", async () => {
    const { page } = await web.signInUser();
    for (const text of ["First words", "Second words"]) {
      await say(page, text);
      await see(page.locator(".markdown"), text);
      await page.getByRole("button", { name: "Try again" }).waitFor();
    }
    await page.getByText("First words", { exact: true }).last().hover();
    await page.getByRole("button", { name: "Edit the message" }).first().click();
    await page.getByRole("textbox", { name: "Edit the message" }).fill("Other words");
    await page.keyboard.press("Enter");
    await see(page.locator(".markdown"), "Other words");
    expect(await page.locator(".log article").count()).toBe(2);
    const notice = await page.getByText("Message replaced.").boundingBox();
    const composer = await page.locator(".composer").boundingBox();
    const [bottom, top] = [(notice?.y ?? 0) + (notice?.height ?? 0), composer?.y ?? 0];
    expect(bottom, "the notice leaves the composer free").toBeLessThan(top);
    await press(page, "Undo");
    await see(page.locator(".markdown"), "Second words");
    await page.reload();
    await see(page.locator(".markdown"), "Second words");
    expect(await page.locator(".log article").count()).toBe(4);
  });

  test("an export is imported once, and a file with other content is rejected", async () => {
    const { page } = await web.signInUser();
    const files = page.locator("input[type=file]");
    const importText = (text: string) =>
      files.setInputFiles({
        name: "conversations.json",
        mimeType: "application/json",
        buffer: Buffer.from(text),
      });
    const at = Date.now();
    const reply = { content: "Hi", provider: "provider-a", model: "model-a-1", at, state: "done" };
    const whole = { id: "imported", turns: [{ said: "Imported", at, replies: [reply], shown: 9 }] };
    await goTo(page, "/account/data");
    await importText(JSON.stringify([whole, { id: "broken", turns: [{ said: 1 }] }]));
    await see(page, "This file contains no conversations.");
    await importText(JSON.stringify(whole));
    await see(page, "Conversations imported.");
    await importText(JSON.stringify([whole]));
    await see(page, "You already have all conversations in this file.");
    await goTo(page, "/c/imported");
    await see(page.locator(".markdown"), "Hi");
    await expect.poll(() => listOf(page).allInnerTexts()).toEqual(["Imported"]);
  });

  test("a message can be edited and sent again, and a conversation renamed and found by its text", async () => {
    const { page } = await web.signInUser();
    await say(page, "First words");
    await see(page.locator(".markdown"), "First words");
    await page.getByText("First words", { exact: true }).last().hover();
    await press(page, "Edit the message");
    await submit(page, { "Edit the message": "Other words" }, "Send again");
    await see(page.locator(".markdown"), "Other words");
    await page.getByRole("button", { name: "More for this conversation" }).click();
    await page.getByRole("menuitem", { name: "Rename" }).click();
    await submit(page.getByRole("dialog"), { Title: "A name" }, "Save");
    await expect.poll(() => listOf(page).allInnerTexts()).toEqual(["A name"]);
    await page.getByRole("searchbox").fill("other WORDS");
    await expect.poll(() => listOf(page).count()).toBe(1);
    await page.getByRole("searchbox").fill("nowhere");
    await expect.poll(() => listOf(page).count()).toBe(0);
  });

  test("a conversation that is not open can be renamed, pinned and deleted from the list", async () => {
    const tab = await web.signInUser();
    const { page } = tab;
    await say(page, "The first one");
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await goTo(page, "/");
    await say(page, "The second one");
    await page.getByRole("button", { name: "Try again" }).waitFor();
    const address = page.url();
    const choose = async (row: string, item: string) => {
      const menu = listOf(page).getByRole("button", { name: `More for ${row}`, exact: true });
      await menu.focus();
      await page.keyboard.press("Enter");
      await page.getByRole("menuitem", { name: item, exact: true }).click();
    };
    await choose("The first one", "Rename");
    await submit(page.getByRole("dialog"), { Title: "Renamed" }, "Save");
    await choose("Renamed", "Pin");
    await page.getByRole("heading", { name: "Pinned" }).waitFor();
    await expect.poll(() => listOf(page).allInnerTexts()).toEqual(["Renamed", "The second one"]);
    await expectAccessible(tab);
    await choose("Renamed", "Delete this conversation");
    await expect.poll(() => listOf(page).allInnerTexts()).toEqual(["The second one"]);
    expect(page.url()).toBe(address);
    await press(page, "Undo");
    await expect.poll(() => listOf(page).allInnerTexts()).toEqual(["Renamed", "The second one"]);
    expect(page.url()).toBe(address);
  });
});

/** A server on which one provider has no key. */
const WITHOUT_KEY = { browsers: CHROMIUM, env: { MISTRAL_API_KEY: "" } };

describeWeb("Web app: chat with a provider that is not set up", WITHOUT_KEY, (web) => {
  /** Whether the server says of each provider that it has a key: it may lose it in the meantime. */
  const answerProviders = (page: Page, configured: boolean) =>
    page.route("**/ai/providers", async (route) => {
      const response = await route.fetch();
      const providers: object[] = await response.json();
      await route.fulfill({ response, json: providers.map((each) => ({ ...each, configured })) });
    });
  /** The models that are offered, by their state. */
  const modelsOf = async (page: Page) => {
    await page.getByRole("button", { name: /^Model: / }).click();
    const items = page.getByRole("menuitemradio");
    await items.first().waitFor();
    const models = (await items.all()).map(async (item) => ({
      name: (await item.innerText()).trim(),
      disabled: (await item.getAttribute("aria-disabled")) === "true",
    }));
    const all = await Promise.all(models);
    await page.keyboard.press("Escape");
    return (disabled: boolean) =>
      all.filter((each) => each.disabled === disabled).map(({ name }) => name.slice(0, 7));
  };

  test("users are not offered a provider without a key, and administrators see it", async () => {
    const user = await modelsOf((await web.signInUser()).page);
    expect(new Set(user(false))).toEqual(new Set(["model-a", "model-b", "model-c"]));
    expect(user(true)).toEqual([]);
    const { page } = await web.signInAdmin();
    const admin = await modelsOf(page);
    expect(new Set(admin(true))).toEqual(new Set(["model-d"]));
  });

  test("without any provider, the page says so and sends nothing", async () => {
    const { page } = await web.signInUser();
    await answerProviders(page, false);
    await page.reload();
    await see(page, "No AI provider is set up here.");
    await fillIn(page, { Message: "Hello" });
    await page.keyboard.press("Enter");
    expect(await page.getByRole("button", { name: "Send" }).isDisabled()).toBe(true);
    expect(await page.locator(".log article").count()).toBe(0);
  });

  test("a stored conversation whose provider is no longer configured can be read, and continued with another provider", async () => {
    const { page } = await web.signInUser();
    await say(page, "Hello");
    await page.getByRole("button", { name: "Try again" }).waitFor(); // complete and stored
    await changeKept(page, "provider-a", "provider-d");
    await page.reload();
    await see(page, "The provider of this conversation is not set up here.");
    await see(page.locator(".markdown"), "couldn't agree more");
    expect(await page.getByRole("button", { name: "Try again" }).count()).toBe(0);
    await chooseModel(page, "model-b-1");
    await say(page, "Hello again");
    await expect.poll(() => page.locator(".markdown").count()).toBe(2);
  });

  const READERS = [
    { whom: "a user", admin: false },
    { whom: "an administrator", admin: true },
  ];
  test.for(READERS)(
    "$whom sees a failure in the language of the page, with details for administrators only",
    async ({ admin }) => {
      const { page, problems } = await web.signIn(
        await web.app.addUser(admin ? { role: "admin" } : {}),
      );
      await chooseLanguage(page, "Deutsch");
      await answerProviders(page, true); // the key is taken away after the list was read
      await page.reload();
      await chooseModel(page, "model-d-1");
      await submit(page, { Nachricht: "Hallo" }, "Senden");
      const alert = page.getByRole("alert");
      await seeAlert(page, "Dieser Anbieter ist nicht eingerichtet.");
      expect(/MISTRAL_API_KEY/.test(await alert.innerText())).toBe(admin);
      await press(page, "Neue Unterhaltung");
      await chooseModel(page, "model-a-1");
      await submit(page, { Nachricht: "case: bad-key" }, "Senden");
      await seeAlert(page, "Fehler beim KI-Anbieter provider-a: Schlüssel abgelehnt.");
      await chooseLanguage(page, "English");
      await seeAlert(page, "The AI provider provider-a failed: refused the key.");
      problems.length = 0; // the browser's line about the 500
    },
  );

  test("a failure message that an earlier version has stored is not shown", async () => {
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
    await page.getByRole("navigation", { name: "Conversations" }).getByText("Hello").click();
    await seeAlert(page, "The reply is incomplete.");
    expect(await page.getByText("MISTRAL_API_KEY").count()).toBe(0);
  });
});
