import { createHash } from "node:crypto";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { startSuiteApp } from "../../support/app.ts";
import { describeChromium } from "../../support/browser.ts";

const app = await startSuiteApp({ mode: "embedded", env: { WEB: "off" } });
const pages = ["/verify-email", "/reset-password", "/not-me", "/email-code"];
const FORGOTTEN = "/forgot-password";
/** The browser also requests an icon, which does not exist. */
const isNoIcon = (text: string) => !text.includes("favicon");

test.each([...pages, FORGOTTEN])(
  "GET %s: loads nothing, is not stored, sends no Referer and cannot be framed",
  async (path) => {
    const { status, headers, text } = await app.httpClient().get(path);
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    const policy = headers.get("content-security-policy") ?? "";
    for (const part of ["default-src", "frame-ancestors", "form-action", "base-uri"])
      expect(policy).toContain(`${part} 'none'`);
    expect(policy).not.toContain("unsafe");
    const script = /<script>(.*)<\/script>/s.exec(text)?.[1] ?? "";
    expect(policy).toContain(`'sha256-${createHash("sha256").update(script).digest("base64")}'`);
    expect(text).not.toMatch(/\b(src|href)="?(https?:)?\/\/|\son\w+=/);
  },
);

test("GET /: WEB=off removes the web app, but not these pages", async () => {
  expect((await app.httpClient().get("/")).status).toBe(404);
});

describeChromium("Mailed links in Chromium", (visit) => {
  /** The address of a link at the gateway of this suite. */
  const here = (link: string | undefined) =>
    (link as string).replace("http://gatehouse.test", app.url);
  const open = (link: string | undefined) =>
    visit(here(link), { extraHTTPHeaders: { "x-forwarded-for": app.httpClient().address } });
  const status = (page: Page, text: RegExp) =>
    page.getByRole("status").filter({ hasText: text }).waitFor();

  /** Opens a link that is not complete, and in its place another one. */
  async function openAfterIncomplete(path: string, link: string | undefined) {
    const visited = await open(`http://gatehouse.test${path}#token=`);
    const { page, requests } = visited;
    await status(page, /not complete/);
    expect(await page.getByRole("button").isDisabled()).toBe(true);
    await page.goto(here(link));
    await page.getByText("not complete").waitFor({ state: "detached" });
    expect(new Set(requests.filter(isNoIcon))).toEqual(new Set([`GET ${app.url}${path}`])); // without the fragment
    expect(page.url()).toBe(`${app.url}${path}`); // the token is not in the address bar
    return visited;
  }

  test("GET /verify-email: opening the link uses nothing, and one click confirms and shows the result", async () => {
    const user = await app.addUser();
    const { link } = await app.mail.emailTo(user.email);
    const unconfirmed = "select id from users where id = ? and email_verified_at is null";
    const { page, errors } = await openAfterIncomplete("/verify-email", link);
    expect(await app.sql(unconfirmed, [user.id])).toHaveLength(1);
    await page.getByRole("button", { name: "Verify" }).click();
    await status(page, /is verified/);
    expect(await app.sql(unconfirmed, [user.id])).toHaveLength(0);
    expect(errors.filter(isNoIcon)).toEqual([]);
    const again = await open(link);
    await again.page.getByRole("button").click();
    await status(again.page, /invalid, has expired or was already used/);
  });

  test("GET /not-me: asks for the address, and deletes an account that somebody else has registered", async () => {
    const user = await app.addUser();
    const { text = "" } = await app.mail.emailTo(user.email);
    const [link] = /http\S+not-me\S+/.exec(text) ?? [];
    const { page } = await open(link);
    await page.getByRole("heading", { name: "I did not create this account" }).waitFor();
    const submitAs = async (email: string) => {
      await page.getByLabel("E-mail address").fill(email);
      await page.getByRole("button", { name: "Delete the account" }).click();
    };
    await submitAs("other@example.com");
    await status(page, /must be the address to which the e-mail was sent/);
    await submitAs(user.email);
    await status(page, /has been deleted/);
    expect(await app.sql("select id from users where id = ?", [user.id])).toEqual([]);
  });

  test("GET /reset-password: a weak password is reported and leaves the link valid, and a strong one is set", async () => {
    const { email } = await app.addUser();
    await app.resetTokenFor(email);
    const { link } = await app.mail.emailTo(email, /Reset/);
    const { page, errors } = await openAfterIncomplete("/reset-password", link);
    await page.getByLabel("New password").fill("lowercase");
    await page.getByRole("button").click();
    for (const hasText of ["uppercase", "digit"])
      await page.getByRole("listitem").filter({ hasText }).waitFor();
    const password = "Brand-new-2 🦜";
    await page.getByLabel("New password").fill(password);
    await page.getByRole("button").click();
    await status(page, /password has been changed/);
    expect((await app.login(email, password)).status).toBe(200);
    expect(errors.filter((text) => isNoIcon(text) && !text.includes("400"))).toEqual([]);
    const again = await open(link);
    await again.page.getByLabel("New password").fill(password);
    await again.page.getByRole("button").click();
    await status(again.page, /invalid, has expired or was already used/);
  });

  test("GET /forgot-password: the button of an e-mail about security leads to a new link", async () => {
    const user = await app.addVerifiedUser();
    const account = await app.signIn(user);
    await account.post("/user/change-password", {
      currentPassword: user.password,
      newPassword: "Brand-new-2",
    });
    const { text = "" } = await app.mail.emailTo(user.email, /was changed/);
    const button = /http:\/\/gatehouse\.test\/forgot-password$/m.exec(text)?.[0];
    const { page, errors } = await open(button);
    await page.getByLabel("E-mail address").fill(user.email);
    await page.getByRole("button", { name: "Send the link" }).click();
    await status(page, /we have sent an e-mail/);
    expect((await app.mail.emailTo(user.email, /Reset your/)).token).toBeDefined();
    expect(errors.filter(isNoIcon)).toEqual([]);
  });

  test.each([...pages, FORGOTTEN])(
    "GET %s: inserts no HTML, and is accessible on narrow screens and in dark mode",
    async (path) => {
      const { page } = await open(
        `http://gatehouse.test${path}#token=x"><img src=x onerror=alert(1)>`,
      );
      expect(await page.locator("img").count()).toBe(0);
      await page.emulateMedia({ colorScheme: "dark" });
      await page.setViewportSize({ width: 320, height: 640 });
      await page.locator("main h1").waitFor();
      const layout = await page.evaluate(`({
      unlabelled: [...document.querySelectorAll("input, textarea")].filter(({ labels }) => labels.length !== 1).length,
      width: document.documentElement.scrollWidth,
      color: getComputedStyle(document.documentElement).color, // the background is of the same scheme
    })`);
      expect(layout).toEqual({ unlabelled: 0, width: 320, color: "rgb(255, 255, 255)" });
    },
  );
});
