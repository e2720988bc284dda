import { get as httpGet } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { start, startSuiteGateway } from "../../support/http/gateway.ts";
import { forTest } from "../../support/suites.ts";

const HTML = "text/html; charset=utf-8";

/** Sends headers that `fetch` sets by itself, as browsers do. */
const browse = (url: string, headers: Record<string, string>) =>
  new Promise<{ status: number; type: string; vary: string; text: string }>((resolve, reject) => {
    httpGet(url, { headers }, async (response) => {
      const { statusCode: status = 0, headers: sent } = response;
      const type = String(sent["content-type"]);
      resolve({ status, type, vary: String(sent.vary), text: await textOf(response) });
    }).on("error", reject);
  });

describe("GET /, the web app", async () => {
  const server = await startSuiteGateway(() => {});
  const get = (path: string, headers?: Record<string, string>) =>
    server.send("GET", path, undefined, headers);

  test.each(["/", "/verify-email", "/reset-password"])(
    "GET %s: returns the page, with a strict policy",
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

  test("GET /assets/…: are cached permanently, and compressed", async () => {
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

  test("GET /.well-known/change-password: redirects to the form, below the path of PUBLIC_URL too", async () => {
    const { status, headers } = await get("/.well-known/change-password");
    const location = headers.get("location") ?? "";
    expect(status).toBe(303);
    for (const base of ["https://api.example.com", "https://example.com/below"]) {
      const form = new URL(location, `${base}/.well-known/change-password`);
      expect(form.href).toBe(`${base}/account/security`);
    }
    expect((await server.send("HEAD", "/.well-known/change-password")).status).toBe(303);
  });

  test("GET /assets/unknown.js, /admin: are JSON errors of the API for clients that do not navigate", async () => {
    for (const path of ["/assets/unknown.js", "/admin", "/sign-in", "/index.html"]) {
      for (const headers of [{}, { "sec-fetch-mode": "cors", accept: "text/html" }]) {
        const { status, body } = await get(path, headers);
        expect([status, body.code], path).toEqual([404, "NOT_FOUND"]);
      }
    }
    expect((await server.send("POST", "/")).status).toBe(405);
  });

  const NAVIGATIONS = [
    { path: "/admin", sent: { "sec-fetch-mode": "navigate" } },
    { path: "/admin/users", sent: { "sec-fetch-mode": "navigate" } },
    { path: "/c/0192", sent: { "sec-fetch-mode": "navigate" } },
    { path: "/sign-in", sent: { accept: "text/html,application/xhtml+xml,*/*;q=0.8" } },
  ];
  test.for(NAVIGATIONS)(
    "GET $path with $sent: returns the page for a navigation",
    async ({ path, sent }) => {
      const { status, type, vary, text } = await browse(server.url + path, sent);
      expect([status, type]).toEqual([200, HTML]);
      expect(vary).toContain("sec-fetch-mode");
      expect(text).toBe((await get("/")).text);
    },
  );

  const OTHERS = [
    { path: "/admin/users", sent: { accept: "text/html" }, status: 501 }, // of stub services
    { path: "/health/live", sent: { "sec-fetch-mode": "navigate" }, status: 200 },
    { path: "/openapi.json", sent: { "sec-fetch-mode": "navigate" }, status: 200 },
  ];
  test.for(OTHERS)("GET $path with $sent: remains a route of the API", async (row) => {
    const { status, type } = await browse(server.url + row.path, row.sent);
    expect([status, type]).toEqual([row.status, "application/json; charset=utf-8"]);
  });

  test("GET /c/0192 below the path of PUBLIC_URL: returns the page with its base", async () => {
    const below = await forTest(start(() => {}, { env: { PUBLIC_URL: "https://a.test/app" } }));
    const { text } = await browse(`${below.url}/c/0192`, { "sec-fetch-mode": "navigate" });
    expect(text).toContain('<base href="/app/">');
  });
});

describe("GET /.well-known/change-password without the web app", () => {
  test("redirects to the page that mails a link, below the path of PUBLIC_URL too", async () => {
    const server = await forTest(start(() => {}, { env: { WEB: "off" } }));
    const { status, headers } = await server.send("GET", "/.well-known/change-password");
    const location = headers.get("location") ?? "";
    expect(status).toBe(303);
    const below = new URL(location, "https://example.com/below/.well-known/change-password");
    expect(below.href).toBe("https://example.com/below/forgot-password");
    const { pathname } = new URL(location, `${server.url}/.well-known/change-password`);
    expect((await browse(server.url + pathname, { accept: "text/html" })).type).toBe(HTML);
  });

  test("redirects to the security page of the front end at APP_URL", async () => {
    const env = { WEB: "off", PUBLIC_URL: "https://api.test", APP_URL: "https://app.test" };
    const server = await forTest(start(() => {}, { env }));
    const { status, headers } = await server.send("GET", "/.well-known/change-password");
    expect([status, headers.get("location")]).toEqual([303, "https://app.test/account/security"]);
  });
});
