import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { describeChromium } from "../../support/browser.ts";
import { start } from "../../support/http/gateway.ts";

const app = await testApp();
const WIDE = { viewport: { width: 1400, height: 1000 } };

test("GET /docs: allows scripts and requests of its own origin only, and no inline scripts", async () => {
  const { status, headers, text } = await app.httpClient().get("/docs");
  expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
  const policy = headers.get("content-security-policy")?.split("; ");
  expect(policy).toEqual(
    expect.arrayContaining(["default-src 'none'", "script-src 'self'", "connect-src 'self'"]),
  );
  expect(policy).toEqual(
    expect.arrayContaining(["frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"]),
  );
  expect(text).not.toMatch(/<script(?![^>]* src="docs\/)|<style|\son\w+=|https?:/);
});

test("GET /docs and its scripts: are removed by DOCS=off", async () => {
  const server = await start(() => {}, { env: { DOCS: "off" } });
  const paths = ["/docs", "/docs/start.js", "/docs/scalar.js", "/openapi.json"];
  const responses = await Promise.all(paths.map((path) => server.send("GET", path)));
  expect(responses.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
  await server.close();
});

describeChromium("GET /docs in Chromium", (visit) => {
  test("lists every route, violates no policy and sends no request to another origin", async () => {
    const { page, errors, requests } = await visit(`${app.url}/docs`, WIDE);
    await page.getByText("Powered by Scalar").waitFor();
    const { paths } = (await (await fetch(`${app.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { summary: string }>>;
    };
    const summaries = Object.values(paths).flatMap((methods) =>
      Object.values(methods).map(({ summary }) => summary),
    );
    await page
      .getByRole("link", { name: summaries.at(-1) as string })
      .first()
      .waitFor();
    const listed = (await page.getByRole("link").allInnerTexts()).join("\n");
    expect(summaries.filter((summary) => !listed.includes(summary))).toEqual([]);
    expect(errors.filter((error) => !error.includes("401"))).toEqual([]); // the caller is not signed in
    const isForeign = (request: string) =>
      !/ (?:data|blob):/.test(request) && !request.includes(` ${app.url}`);
    expect(requests.filter(isForeign)).toEqual([]);
  });

  test("shows code samples for curl, fetch and Python", async () => {
    const { page } = await visit(`${app.url}/docs#tag/user/GET/user/profile`, WIDE);
    const section = page
      .locator("section", { has: page.getByRole("heading", { name: "Get Profile" }) })
      .last();
    await section.getByText("--header").first().waitFor(); // in curl
    await section.getByRole("button", { name: "Curl" }).first().click();
    await page.getByRole("option").first().waitFor();
    expect((await page.getByRole("option").allInnerTexts()).sort()).toEqual([
      "Curl",
      "Fetch",
      "Requests",
    ]);
    await page.getByRole("option", { name: "Requests" }).click();
    await section.getByText("requests.get(").first().waitFor();
  });
});
