import { existsSync } from "node:fs";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApp, type TestApp } from "../../support/app.ts";

const CHROMIUM = "/usr/bin/chromium";

describe.skipIf(!existsSync(CHROMIUM) && !process.env.CI)("Mailed links in Chromium", () => {
  let app: TestApp;
  let browser: Browser;
  beforeAll(async () => {
    app = await startApp({ mode: "embedded", env: { WEB: "off" } });
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  });
  afterAll(async () => {
    await browser.close();
    await app.close();
  });

  /** Opens a mailed link as its recipient would, on the gateway of this test; nothing else may be asked for. */
  async function open(link: string | undefined): Promise<{ page: Page; asked: string[]; problems: string[] }> {
    const page = await browser.newPage({ extraHTTPHeaders: { "x-forwarded-for": app.httpClient().address } });
    const [asked, problems]: string[][] = [[], []];
    page.on("request", (request) => asked?.push(`${request.method()} ${request.url().replace(app.url, "")}`));
    page.on("console", (message) => message.type() === "error" && problems?.push(message.text()));
    page.on("pageerror", (error) => problems?.push(error.message));
    await page.goto((link as string).replace("http://gatehouse.test", app.url));
    return { page, asked: asked as string[], problems: problems as string[] };
  }
  const status = (page: Page, text: RegExp) => page.getByRole("status").filter({ hasText: text }).waitFor();

  test("GET /verify-email: opening consumes nothing, one click confirms and shows the result", async () => {
    const user = await app.addUser();
    const { link } = await app.mail.emailTo(user.email);
    const unconfirmed = "select id from users where id = ? and email_verified_at is null";
    const { page, asked, problems } = await open(link);
    expect(asked.filter((line) => !line.includes("favicon"))).toEqual(["GET /verify-email"]); // the fragment stays here
    expect(await app.sql(unconfirmed, [user.id])).toHaveLength(1);
    expect(page.url()).toBe(`${app.url}/verify-email`); // and leaves the address bar
    await page.getByRole("button", { name: "Verify" }).click();
    await status(page, /is confirmed/);
    expect(await app.sql(unconfirmed, [user.id])).toHaveLength(0);
    expect(problems.filter((text) => !text.includes("favicon"))).toEqual([]);

    const again = await open(link);
    await again.page.getByRole("button").click();
    await status(again.page, /invalid, expired or already used/);
    const bare = await open("http://gatehouse.test/verify-email");
    await status(bare.page, /not complete/);
    expect(await bare.page.getByRole("button").isDisabled()).toBe(true);
  });

  test("GET /verify-email: accepts the link of a changed address", async () => {
    const { user, browser: httpClient, accessToken } = await app.signIn();
    const newEmail = `new-${user.email}`;
    await httpClient.post("/user/change-email", { newEmail, password: user.password }, accessToken);
    const { page } = await open((await app.mail.emailTo(newEmail)).link);
    await page.getByRole("button").click();
    await status(page, /is confirmed/);
    expect((await httpClient.get("/user/profile", accessToken)).body.email).toBe(newEmail);
  });

  test("GET /reset-password: a weak password is reported and keeps the link valid, a strong one is set", async () => {
    const user = await app.addUser();
    await app.httpClient().post("/auth/forgot-password", { email: user.email });
    const { link } = await app.mail.emailTo(user.email, /Reset/);
    const { page, asked, problems } = await open(link);
    expect(asked.filter((line) => !line.includes("favicon"))).toEqual(["GET /reset-password"]);
    await page.getByLabel("New password").fill("lowercase");
    await page.getByRole("button").click();
    await page.getByRole("listitem").filter({ hasText: "uppercase" }).waitFor();
    await page.getByRole("listitem").filter({ hasText: "digit" }).waitFor();
    const password = "Brand-new-2 🦜";
    await page.getByLabel("New password").fill(password);
    await page.getByRole("button").click();
    await status(page, /password is changed/);
    expect((await app.httpClient().post("/auth/login", { email: user.email, password })).status).toBe(200);
    expect(problems.filter((text) => !/favicon|400/.test(text))).toEqual([]);

    const again = await open(link);
    await again.page.getByLabel("New password").fill(password);
    await again.page.getByRole("button").click();
    await status(again.page, /invalid, expired or already used/);
  });

  test("the pages run their own script only, and refuse frames", async () => {
    for (const path of ["/verify-email", "/reset-password"]) {
      const { page } = await open(`http://gatehouse.test${path}#token=x"><img src=x onerror=alert(1)>`);
      expect(await page.locator("img").count()).toBe(0);
      await page.evaluate(
        `document.body.append(Object.assign(document.createElement("script"), { text: "injected = 1" }))`,
      );
      const ran = await page.evaluate("typeof injected");
      expect(ran).toBe("undefined");
      const outer = await browser.newPage();
      await outer.setContent(`<iframe src="${app.url}${path}"></iframe>`);
      await outer.waitForTimeout(300);
      expect(await outer.frames()[1]?.locator("form").count()).toBe(0);
    }
  });
});
