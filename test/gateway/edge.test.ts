import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { until } from "../until.ts";
import type { Routes, Started } from "./harness.ts";
import { start } from "./harness.ts";

let metadata: Record<string, string> = {};
const routes: Routes = (router) =>
  router
    .service(UserService, {
      getProfile: (_request, context) => {
        metadata = Object.fromEntries(context.requestHeader);
        return { user: { id: "1" } };
      },
      revokeSession: () => ({ message: "ok" }),
    })
    .service(AuthService, {
      login: () => ({ accessToken: "secret-token", refreshToken: "secret-refresh" }),
      refresh: () => ({}),
      logout: () => ({}),
    });

describe("every request", () => {
  let edge: Started;
  beforeAll(async () => {
    edge = await start(routes, { env: { INTERNAL_SECRET: "between-us" } });
  });
  afterAll(() => edge.close());

  test("keeps a sane request id and replaces any other", async () => {
    for (const sane of ["a", "A.b_c-9", "x".repeat(128)]) {
      const answer = await edge.send("GET", "/user/profile", undefined, { "x-request-id": sane });
      expect(answer.headers.get("x-request-id")).toBe(sane);
      expect(metadata["x-request-id"]).toBe(sane);
    }
    for (const other of ["", "x".repeat(129), "a b", "a,b", "é", "<script>"]) {
      const answer = await edge.send("GET", "/user/profile", undefined, { "x-request-id": other });
      expect(answer.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  test.each(["/user/profile", "/nowhere", "/user/%zz", "/health/live", "/openapi.json"])(
    "is answered with id, security headers and no-store: %s",
    async (path) => {
      const { headers } = await edge.send("GET", path);
      expect(Object.fromEntries(headers)).toMatchObject({
        "cache-control": "no-store",
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "x-request-id": expect.stringMatching(/^[0-9a-f-]{36}$/),
      });
      expect(headers.has("strict-transport-security")).toBe(false);
      expect(headers.has("x-powered-by")).toBe(false);
      expect(headers.has("server")).toBe(false);
    },
  );

  test("to an unknown address is 404 in the error shape, whatever its method, body or type", async () => {
    const body = { statusCode: 404, error: "Not Found", code: "NOT_FOUND", message: expect.any(String) };
    for (const path of ["/", "/user", "/user/profile/", "/User/profile", "/auth/login/x", "/%2e%2e/etc/passwd"]) {
      expect(await edge.send("GET", path), path).toMatchObject({ status: 404, body });
    }
    expect(await edge.send("POST", "/nope", "x".repeat(100_000), { "content-type": "text/plain" })).toMatchObject({
      status: 404,
      body,
    });
    expect((await edge.send("PROPFIND", "/nope")).status).toBe(404);
  });

  test.each([
    ["PATCH", "/user/profile", "GET, HEAD, PUT"],
    ["DELETE", "/user/profile", "GET, HEAD, PUT"],
    ["GET", "/auth/login", "POST"],
    ["HEAD", "/auth/login", "POST"],
    ["OPTIONS", "/auth/login", "POST"],
    ["PROPFIND", "/auth/login", "POST"],
    ["POST", "/user/sessions/1", "DELETE"],
    ["GET", "/admin/users/1?a=b", "PUT, DELETE"],
    ["POST", "/health", "GET, HEAD"],
  ])("%s %s is 405 and tells what is allowed", async (method, path, allow) => {
    const answer = await edge.send(method, path);
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")?.split(", ").sort()).toEqual(allow.split(", ").sort());
    if (method !== "HEAD")
      expect(answer.body).toMatchObject({ code: "METHOD_NOT_ALLOWED", error: "Method Not Allowed" });
  });

  test("carries to the services who asks: token, id, address, agent, and the secret between us", async () => {
    await edge.send("GET", "/user/profile", undefined, {
      authorization: "Bearer abc",
      "user-agent": `é${"x".repeat(500)}`,
      "x-gatehouse-client-address": "6.6.6.6",
      "x-gatehouse-secret": "guess",
      "x-other": "stays outside",
    });
    expect(metadata).toEqual({
      authorization: "Bearer abc",
      "x-request-id": expect.any(String),
      "x-gatehouse-client-address": "127.0.0.1",
      "x-gatehouse-client-agent": `${encodeURIComponent("é")}${"x".repeat(399)}`,
      "x-gatehouse-secret": "between-us",
    });
  });

  test("leaves one log line, and in it no token, cookie, body or query", async () => {
    edge.logs.length = 0;
    await edge.send(
      "POST",
      "/auth/login?hidden=query",
      { email: "hidden@b.cd", password: "hidden" },
      { cookie: "a=hidden" },
    );
    await edge.send("DELETE", "/user/sessions/hidden-id", undefined, { authorization: "Bearer hidden" });
    await until("the log lines", () => edge.logs.length === 2);
    expect(edge.logs).toMatchObject([
      { method: "POST", route: "/auth/login", status: 200, ms: expect.any(Number), requestId: expect.any(String) },
      { method: "DELETE", route: "/user/sessions/:id", status: 200 },
    ]);
    expect(JSON.stringify(edge.logs)).not.toMatch(/hidden|secret/);
  });
});

describe("pages of other origins", () => {
  const ours = "https://api.example.com";
  const allowed = "https://app.example.com";
  let edge: Started;
  beforeAll(async () => {
    edge = await start(routes, { env: { PUBLIC_URL: ours, CORS_ORIGINS: `${allowed}, http://localhost:5173` } });
  });
  afterAll(() => edge.close());
  const get = (origin: string) => edge.send("GET", "/user/profile", undefined, { origin });

  test("may read answers, with credentials, if they are allowed", async () => {
    const { headers } = await get(allowed);
    expect(Object.fromEntries(headers)).toMatchObject({
      "access-control-allow-origin": allowed,
      "access-control-allow-credentials": "true",
      "access-control-expose-headers": expect.stringContaining("retry-after"),
      vary: "origin",
      "strict-transport-security": expect.stringContaining("max-age="),
    });
    expect(
      (await edge.send("GET", "/nowhere", undefined, { origin: allowed })).headers.get("access-control-allow-origin"),
    ).toBe(allowed);
  });

  test.each(["https://evil.example.com", "null", "https://app.example.com.evil.com", "http://app.example.com"])(
    "may not otherwise: %s",
    async (origin) => {
      const answer = await get(origin);
      expect(answer.headers.has("access-control-allow-origin")).toBe(false);
      expect(answer.headers.get("vary")).toBe("origin");
    },
  );

  test("get a preflight answer if they are allowed", async () => {
    const ask = { origin: allowed, "access-control-request-method": "PUT" };
    const answer = await edge.send("OPTIONS", "/user/profile", undefined, ask);
    expect(answer.status).toBe(204);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "access-control-allow-origin": allowed,
      "access-control-allow-methods": expect.stringContaining("PUT"),
      "access-control-allow-headers": expect.stringContaining("authorization"),
    });
    expect(
      (await edge.send("OPTIONS", "/user/profile", undefined, { ...ask, origin: "https://evil.com" })).status,
    ).toBe(405);
    expect((await edge.send("OPTIONS", "/nowhere", undefined, ask)).status).toBe(404);
  });

  test("can't use the refresh cookie", async () => {
    const refresh = (headers: Record<string, string>) => edge.send("POST", "/auth/refresh", undefined, headers);
    const refused = { status: 403, body: { code: "CROSS_SITE", error: "Forbidden" } };
    expect(await refresh({ origin: "https://evil.com", cookie: "refreshToken=x" })).toMatchObject(refused);
    expect(await refresh({ origin: "null" })).toMatchObject(refused);
    expect(await refresh({ "sec-fetch-site": "cross-site" })).toMatchObject(refused);
    expect(await refresh({ "sec-fetch-site": "cross-site", origin: allowed })).toMatchObject(refused);
    for (const fine of [{}, { origin: ours }, { origin: allowed, "sec-fetch-site": "same-site" }]) {
      expect((await refresh(fine)).status).toBe(200);
    }
    expect((await edge.send("POST", "/auth/logout", undefined, { origin: "https://evil.com" })).status).toBe(200);
  });
});

describe("the client's address", () => {
  let edge: Started;
  afterEach(() => edge.close());
  const addressFor = async (trusted: string, forwarded: string) => {
    edge = await start(routes, { env: { TRUST_PROXY: trusted } });
    await edge.send("GET", "/user/profile", undefined, { "x-forwarded-for": forwarded });
    return metadata["x-gatehouse-client-address"];
  };

  test.each([
    ["nobody is trusted", "", "6.6.6.6", "127.0.0.1"],
    ["the socket is no trusted proxy", "10.0.0.1", "6.6.6.6", "127.0.0.1"],
    ["one proxy is trusted, the client's own entries are not", "127.0.0.1", "6.6.6.6, 9.9.9.9", "9.9.9.9"],
    ["several proxies are trusted", "127.0.0.0/8, 10.0.0.0/8", "6.6.6.6, 9.9.9.9, 10.1.2.3", "9.9.9.9"],
    ["all entries are trusted proxies", "127.0.0.1,10.0.0.0/8", "10.0.0.2", "10.0.0.2"],
    ["an entry is no address", "127.0.0.1", "9.9.9.9, evil<script>", "127.0.0.1"],
    ["the client has IPv6", "127.0.0.1", "2001:DB8::0:1", "2001:db8::1"],
    ["an IPv4 address is written as IPv6", "127.0.0.1", "::ffff:9.9.9.9", "9.9.9.9"],
    ["there is nothing to read", "127.0.0.1", "", "127.0.0.1"],
  ])("where %s", async (_what, trusted, forwarded, expected) => {
    expect(await addressFor(trusted, forwarded)).toBe(expected);
  });
});
