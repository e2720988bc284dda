import { describe, expect, test } from "vitest";
import { start, startSuiteGateway } from "../../support/http/gateway.ts";
import { forTest } from "../../support/suites.ts";

const HTML = "text/html; charset=utf-8";

describe("GET /, the web app", async () => {
  const server = await startSuiteGateway(() => {});
  const get = (path: string, headers?: Record<string, string>) =>
    server.send("GET", path, undefined, headers);

  test.each(["/", "/verify-email", "/reset-password"])(
    "GET %s: is the page, with a strict policy",
    async (path) => {
      const { status, headers, text } = await get(path);
      expect([status, headers.get("content-type"), headers.get("cache-control")]).toEqual([
        200,
        HTML,
        "no-cache",
      ]);
      const policy = headers.get("content-security-policy") ?? "";
      for (const part of [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
      ])
        expect(policy.split("; ")).toContain(part);
      expect(text).not.toMatch(/<script>|<style>|\sstyle=|\son\w+=|https?:/);
    },
  );

  test("GET /assets/…: are cached for good, and compressed", async () => {
    const { text } = await get("/");
    const paths = [...text.matchAll(/(?:src|href)="\.(\/[^"]+)"/g)].map(([, path = ""]) => path);
    expect(paths.length).toBeGreaterThan(2);
    for (const path of paths) {
      const response = await get(path, { "accept-encoding": "gzip" });
      expect(response.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(response.headers.get("content-encoding")).toBe("gzip");
      expect(response.headers.get("vary")).toContain("accept-encoding");
      const plain = await get(path, { "accept-encoding": "br, gzip; q=0" });
      expect(plain.headers.get("content-encoding")).toBeNull();
      expect(plain.text).toBe(response.text);
    }
  });

  test("GET /.well-known/change-password: leads to the form, below the path of PUBLIC_URL too", async () => {
    const { status, headers } = await get("/.well-known/change-password");
    const location = headers.get("location") ?? "";
    expect(status).toBe(303);
    for (const base of ["https://api.example.com", "https://example.com/below"]) {
      const form = new URL(location, `${base}/.well-known/change-password`);
      expect(form.href).toBe(`${base}/#/security`);
    }
    expect((await server.send("HEAD", "/.well-known/change-password")).status).toBe(303);
  });

  test("GET /assets/unknown.js, /admin: stay JSON errors of the API", async () => {
    for (const path of ["/assets/unknown.js", "/admin", "/sign-in", "/index.html"]) {
      const { status, body } = await get(path);
      expect([status, body.code], path).toEqual([404, "NOT_FOUND"]);
    }
    expect((await server.send("POST", "/")).status).toBe(405);
  });
});

test("GET /.well-known/change-password: is 404 without the web app", async () => {
  const server = await forTest(start(() => {}, { env: { WEB: "off" } }));
  const answer = await server.send("GET", "/.well-known/change-password");
  expect([answer.status, answer.body.code]).toEqual([404, "NOT_FOUND"]);
});
