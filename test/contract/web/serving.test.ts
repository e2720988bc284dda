import { describe, expect, test } from "vitest";
import { startSuiteGateway } from "../../support/gateway.ts";

describe("GET /, the web app", async () => {
  const server = await startSuiteGateway(() => {});
  const get = (path: string, headers?: Record<string, string>) => fetch(server.url + path, headers ? { headers } : {});
  const assets = async () => {
    const html = await (await get("/")).text();
    return [...html.matchAll(/(?:src|href)="\.(\/[^"]+)"/g)].map(([, path]) => path as string);
  };

  test.each(["/", "/verify-email", "/reset-password"])("GET %s: is the page, with a strict policy", async (path) => {
    const response = await get(path);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache");
    const policy = response.headers.get("content-security-policy") ?? "";
    for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"])
      expect(policy.split("; ")).toContain(part);
    const html = await response.text();
    expect(html).not.toMatch(/<script>|<style>|\sstyle=|\son\w+=|https?:/);
  });

  test("GET /assets/…: are cached for good, and compressed", async () => {
    const paths = await assets();
    expect(paths.length).toBeGreaterThan(2);
    for (const path of paths) {
      const response = await fetch(server.url + path, { headers: { "accept-encoding": "gzip" } });
      expect(response.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(response.headers.get("content-encoding")).toBe("gzip");
      expect(response.headers.get("vary")).toContain("accept-encoding");
      const plain = await server.send("GET", path, undefined, { "accept-encoding": "br, gzip; q=0" });
      expect(plain.headers.get("content-encoding")).toBeNull();
      expect(plain.text).toBe(await response.text());
    }
  });

  test("GET /assets/unknown.js, /admin: stay JSON errors of the API", async () => {
    for (const path of ["/assets/unknown.js", "/admin", "/sign-in", "/index.html"]) {
      const { status, body } = await server.send("GET", path);
      expect([status, body.code], path).toEqual([404, "NOT_FOUND"]);
    }
    expect((await server.send("POST", "/")).status).toBe(405);
  });
});
