import http from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NEW_PASSWORD } from "../../support/accounts.ts";
import { startApp, type TestApp } from "../../support/app.ts";
import { describeChromium, press, submit } from "../../support/browser.ts";
import { listen } from "../../support/network/sockets.ts";

describeChromium("PUBLIC_URL with a path that a proxy removes", (visit) => {
  let app: TestApp;
  let publicUrl: string;
  const proxy = http.createServer((request, response) => {
    const [, path] = /^\/api(\/.*)$/.exec(request.url ?? "") ?? [];
    if (!path) return void response.writeHead(404).end();
    const { method, headers } = request;
    const forwarded = http.request(app.url + path, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(response);
    });
    request.pipe(forwarded);
  });
  beforeAll(async () => {
    publicUrl = `http://127.0.0.1:${await listen(proxy)}/api`;
    app = await startApp({ mode: "embedded", env: { PUBLIC_URL: `${publicUrl}/` } });
  });
  afterAll(async () => {
    proxy.close();
    await app.close();
  });

  test("mailed links work", async () => {
    const user = await app.addUser();
    const { link } = await app.mail.emailTo(user.email);
    expect(link).toContain(`${publicUrl}/verify-email#token=`);
    const { page } = await visit(link as string);
    await press(page, "Verify", "Your address is verified.");
    await app.resetTokenFor(user.email);
    await page.goto((await app.mail.emailTo(user.email, /Reset/)).link as string);
    await submit(
      page,
      { "New password": NEW_PASSWORD },
      "Set the password",
      "Your password has been changed.",
    );
  });

  test("requests from the documentation work, and browsers stay signed in", async () => {
    const user = await app.addUser();
    const { page, errors } = await visit("about:blank");
    await page.request.post(`${publicUrl}/auth/login`, { data: user.credentials });
    await page.goto(`${publicUrl}/docs#tag/user/GET/user/profile`);
    const section = page
      .locator("section", { has: page.getByRole("heading", { name: "Get Profile" }) })
      .last();
    await section.getByText("--header").first().waitFor(); // the sample in curl
    await section.getByRole("button", { name: /Test Request/ }).click();
    await page.getByRole("button", { name: "Send", exact: false }).first().click();
    await page.getByText(user.email).first().waitFor();
    expect(errors).toEqual([]);
  });
});
