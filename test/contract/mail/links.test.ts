import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startApp, type TestApp } from "../../support/app.ts";
import { describeChromium } from "../../support/web-fixture.ts";

/** The browser also requests an icon, which does not exist. */
const isNoIcon = (text: string) => !text.includes("favicon");

describeChromium("Mailed links in Chromium", (visit) => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startApp({ mode: "embedded", env: { WEB: "off" } });
  });
  afterAll(() => app.close());

  /** Opens a mailed link at the gateway of this suite. */
  const open = (link: string | undefined) =>
    visit((link as string).replace("http://gatehouse.test", app.url), {
      extraHTTPHeaders: { "x-forwarded-for": app.httpClient().address },
    });
  const status = (page: Page, text: RegExp) => page.getByRole("status").filter({ hasText: text }).waitFor();

  test("GET /verify-email: opening consumes nothing, one click confirms and shows the result", async () => {
    const user = await app.addUser();
    const { link } = await app.mail.emailTo(user.email);
    const unconfirmed = "select id from users where id = ? and email_verified_at is null";
    const { page, requests, errors } = await open(link);
    expect(requests.filter(isNoIcon)).toEqual([`GET ${app.url}/verify-email`]); // without the fragment
    expect(await app.sql(unconfirmed, [user.id])).toHaveLength(1);
    expect(page.url()).toBe(`${app.url}/verify-email`); // the token is not in the address bar
    await page.getByRole("button", { name: "Verify" }).click();
    await status(page, /is confirmed/);
    expect(await app.sql(unconfirmed, [user.id])).toHaveLength(0);
    expect(errors.filter(isNoIcon)).toEqual([]);

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
    const { page, requests, errors } = await open(link);
    expect(requests.filter(isNoIcon)).toEqual([`GET ${app.url}/reset-password`]);
    await page.getByLabel("New password").fill("lowercase");
    await page.getByRole("button").click();
    await page.getByRole("listitem").filter({ hasText: "uppercase" }).waitFor();
    await page.getByRole("listitem").filter({ hasText: "digit" }).waitFor();
    const password = "Brand-new-2 🦜";
    await page.getByLabel("New password").fill(password);
    await page.getByRole("button").click();
    await status(page, /password is changed/);
    expect((await app.httpClient().post("/auth/login", { email: user.email, password })).status).toBe(200);
    expect(errors.filter((text) => isNoIcon(text) && !text.includes("400"))).toEqual([]);

    const again = await open(link);
    await again.page.getByLabel("New password").fill(password);
    await again.page.getByRole("button").click();
    await status(again.page, /invalid, expired or already used/);
  });

  test.each(["/verify-email", "/reset-password"])("GET %s: inserts no HTML of the fragment", async (path) => {
    const { page } = await open(`http://gatehouse.test${path}#token=x"><img src=x onerror=alert(1)>`);
    expect(await page.locator("img").count()).toBe(0);
  });
});
