import { existsSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { type Browser, chromium } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApp, type TestApp } from "../../support/app.ts";
import { PROFILE_SECTION, sendProfileRequest } from "../../support/reference-page.ts";

const CHROMIUM = "/usr/bin/chromium";

describe.skipIf(!existsSync(CHROMIUM) && !process.env.CI)("PUBLIC_URL with a path that a proxy removes", () => {
  let app: TestApp;
  let browser: Browser;
  let publicUrl: string;
  const proxy = http.createServer((request, response) => {
    const [, path] = /^\/api(\/.*)$/.exec(request.url ?? "") ?? [];
    if (!path) return void response.writeHead(404).end();
    const { method, headers } = request;
    const onward = http.request(app.url + path, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(response);
    });
    request.pipe(onward);
  });
  beforeAll(async () => {
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    publicUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/api`;
    app = await startApp({ mode: "embedded", env: { PUBLIC_URL: `${publicUrl}/` } });
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  });
  afterAll(async () => {
    await browser.close();
    proxy.close();
    await app.close();
  });

  test("mailed links work", async () => {
    const user = await app.addUser();
    const { link } = await app.mail.emailTo(user.email);
    expect(link).toContain(`${publicUrl}/verify-email#token=`);
    const page = await browser.newPage();
    await page.goto(link as string);
    await page.getByRole("button", { name: "Confirm" }).click();
    await page.getByText("Your address is confirmed.").waitFor();

    await app.httpClient().post("/auth/forgot-password", { email: user.email });
    await page.goto((await app.mail.emailTo(user.email, /Reset/)).link as string);
    await page.getByLabel("New password").fill("Brand-new-2");
    await page.getByRole("button", { name: "Set the password" }).click();
    await page.getByText("Your password is changed.").waitFor();
  });

  test("the documentation sends requests, and browsers stay signed in", async () => {
    const user = await app.addUser();
    const page = await browser.newPage();
    await page.request.post(`${publicUrl}/auth/login`, { data: user.credentials });
    await page.goto(`${publicUrl}/docs${PROFILE_SECTION}`);
    await sendProfileRequest(page);
    await page.getByText(user.email).first().waitFor();
  });
});
