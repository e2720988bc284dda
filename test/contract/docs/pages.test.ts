import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { type Started, start } from "../../support/gateway.ts";

const CHROMIUM = "/usr/bin/chromium";
const pages = ["/verify-email", "/reset-password"];
let server: Started;
const given: string[] = [];

beforeAll(async () => {
  server = await start(
    (router) =>
      router.service(AuthService, {
        verifyEmail: ({ token }) => {
          given.push(token);
          return { message: "Your address is verified." };
        },
        resetPassword: ({ token, password }) => {
          given.push(token, password);
          return { message: "Your password is set." };
        },
      }),
    { env: { WEB: "off" } },
  );
});
afterAll(() => server.close());
beforeEach(() => {
  given.length = 0;
});

describe.each(pages)("GET %s", (path) => {
  test("loads nothing, is not stored, leaks no address and cannot be framed", async () => {
    const { status, headers, text } = await server.send("GET", path);
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    const policy = headers.get("content-security-policy") ?? "";
    for (const part of ["default-src", "frame-ancestors", "form-action", "base-uri"]) {
      expect(policy).toContain(`${part} 'none'`);
    }
    expect(policy).not.toContain("unsafe");
    const script = /<script>(.*)<\/script>/s.exec(text)?.[1] ?? "";
    expect(policy).toContain(`'sha256-${createHash("sha256").update(script).digest("base64")}'`);
    expect(text).not.toMatch(/\b(src|href)="?(https?:)?\/\//);
    expect(text).not.toMatch(/\son\w+=/);
    expect(given).toEqual([]);
  });
});

describe.runIf(existsSync(CHROMIUM))("Pages in a browser", () => {
  let browser: Awaited<ReturnType<typeof chromium.launch>>;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  });
  afterAll(() => browser?.close());
  const visit = async (path: string) => {
    const page = await browser.newPage();
    const errors: string[] = [];
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    await page.goto(server.url + path);
    return { page, errors };
  };

  test.each(pages)("GET %s: a second link replaces the first", async (path) => {
    const { page, errors } = await visit(`${path}#token=`);
    await page.getByText("This link is not complete.").waitFor();
    await page.goto(`${server.url}${path}#token=second`);
    await page.getByText("This link is not complete.").waitFor({ state: "detached" });
    if (path === "/reset-password") await page.fill("input", "Secret-1!");
    await page.click("button");
    await page.getByText(/^Your .* is /).waitFor();
    expect(given[0]).toBe("second");
    expect(page.url()).not.toContain("second");
    expect(errors).toEqual([]);
  });

  test.each(pages)("GET %s: is accessible, also on a narrow screen and in dark mode", async (path) => {
    const { page } = await visit(path);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 320, height: 640 });
    await page.locator("main h1").waitFor();
    const seen = await page.evaluate(`({
      nameless: [...document.querySelectorAll("input, textarea")].filter(({ labels }) => labels.length !== 1).length,
      width: document.documentElement.scrollWidth,
      ink: getComputedStyle(document.documentElement).color, // the canvas is of the same scheme
    })`);
    expect(seen).toEqual({ nameless: 0, width: 320, ink: "rgb(255, 255, 255)" });
  });
});
