import { createHash } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { startSuiteGateway } from "../../support/gateway.ts";
import { describeChromium } from "../../support/web-fixture.ts";

const pages = ["/verify-email", "/reset-password"];
const given: string[] = [];
const server = await startSuiteGateway(
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
beforeEach(() => {
  given.length = 0;
});

test.each(pages)("GET %s: loads nothing, is not stored, leaks no address and cannot be framed", async (path) => {
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

describeChromium("Pages in Chromium", (visit) => {
  test.each(pages)("GET %s: a second link replaces the first", async (path) => {
    const { page, errors } = await visit(`${server.url}${path}#token=`);
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
    const { page } = await visit(server.url + path);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 320, height: 640 });
    await page.locator("main h1").waitFor();
    const layout = await page.evaluate(`({
      unlabelled: [...document.querySelectorAll("input, textarea")].filter(({ labels }) => labels.length !== 1).length,
      width: document.documentElement.scrollWidth,
      color: getComputedStyle(document.documentElement).color, // the background is of the same scheme
    })`);
    expect(layout).toEqual({ unlabelled: 0, width: 320, color: "rgb(255, 255, 255)" });
  });
});
