import { existsSync } from "node:fs";
import { chromium } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { start } from "../../support/gateway.ts";
import { PROFILE_SECTION, sendProfileRequest } from "../../support/reference-page.ts";

const CHROMIUM = "/usr/bin/chromium";
const app = await testApp();

test("GET /docs: allows scripts and requests of its own origin only, and none inline", async () => {
  const { status, headers, text } = await app.httpClient().get("/docs");
  expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
  const policy = headers.get("content-security-policy")?.split("; ");
  expect(policy).toEqual(expect.arrayContaining(["default-src 'none'", "script-src 'self'", "connect-src 'self'"]));
  expect(policy).toEqual(expect.arrayContaining(["frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"]));
  expect(text).not.toMatch(/<script(?![^>]* src="docs\/)|<style|\son\w+=|https?:/);
});

test("GET /docs and its scripts: DOCS=off removes them", async () => {
  const server = await start(() => {}, { env: { DOCS: "off" } });
  const paths = ["/docs", "/docs/start.js", "/docs/scalar.js", "/openapi.json"];
  const responses = await Promise.all(paths.map((path) => server.send("GET", path)));
  expect(responses.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
  await server.close();
});

describe.runIf(existsSync(CHROMIUM))("GET /docs in a browser", () => {
  let browser: Awaited<ReturnType<typeof chromium.launch>>;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  });
  afterAll(() => browser?.close());

  /** Opens a page below /docs, signed in if there is a refresh token. */
  async function visit(path: string, refreshToken?: string) {
    const context = await browser.newContext({ viewport: { width: 1400, height: 1000 } });
    if (refreshToken) await context.addCookies([{ name: "refreshToken", value: refreshToken, url: `${app.url}/auth` }]);
    const page = await context.newPage();
    const errors: string[] = [];
    const requested: string[] = [];
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    page.on("pageerror", ({ message }) => errors.push(message));
    page.on("request", (request) => requested.push(request.url()));
    await page.goto(`${app.url}/docs${path}`);
    await page.getByText("Powered by Scalar").waitFor();
    return {
      page,
      errors,
      foreign: () => requested.filter((url) => !/^(?:data|blob):/.test(url) && !url.startsWith(app.url)),
    };
  }

  test("lists every route, violates no policy and asks no other origin", async () => {
    const { page, errors, foreign } = await visit("");
    const { paths } = (await (await fetch(`${app.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { summary: string }>>;
    };
    const summaries = Object.values(paths).flatMap((methods) => Object.values(methods).map(({ summary }) => summary));
    await page
      .getByRole("link", { name: summaries.at(-1) as string })
      .first()
      .waitFor();
    const listed = (await page.getByRole("link").allInnerTexts()).join("\n");
    expect(summaries.filter((summary) => !listed.includes(summary))).toEqual([]);
    expect(errors.filter((error) => !error.includes("401"))).toEqual([]); // nobody is signed in
    expect(foreign()).toEqual([]);
  });

  test("sends a request as the user who is signed in, and shows samples", async () => {
    const { user, refreshToken } = await app.signIn();
    const { page, errors, foreign } = await visit(PROFILE_SECTION, refreshToken);
    await sendProfileRequest(page);
    await page.getByText(user.email).first().waitFor();
    expect([errors, foreign()]).toEqual([[], []]);
  });

  test("fits a narrow screen in dark mode", async () => {
    const { page } = await visit("");
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 320, height: 640 });
    await page.getByRole("heading", { name: "Gatehouse" }).first().waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(320);
  });
});
