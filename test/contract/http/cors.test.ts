import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { startApp } from "../../support/app.ts";
import { start, startSuiteGateway } from "../../support/http/gateway.ts";
import { stubAccounts } from "../../support/http/stub-services.ts";
import { forTest } from "../../support/suites.ts";

const { routes, metadata } = stubAccounts();
const OTHERS = [
  "https://evil.example.com",
  "null",
  "https://app.example.com.evil.com",
  "http://app.example.com",
];

describe("CORS", async () => {
  const ours = "https://api.example.com";
  const allowed = "https://app.example.com";
  const server = await startSuiteGateway(routes, {
    env: { PUBLIC_URL: `${ours}/below`, CORS_ORIGINS: `${allowed}, http://localhost:5173` },
  });
  const get = (origin: string) => server.send("GET", "/user/profile", undefined, { origin });

  test("an allowed origin may read responses, with credentials", async () => {
    const { headers } = await get(allowed);
    expect(Object.fromEntries(headers)).toMatchObject({
      "access-control-allow-origin": allowed,
      "access-control-allow-credentials": "true",
      "access-control-expose-headers":
        "x-request-id, ratelimit-limit, ratelimit-remaining, ratelimit-reset, retry-after, x-ai-ignored, x-ai-provider, x-ai-model, x-budget-limit, x-budget-remaining, x-budget-reset, x-should-retry",
      vary: "origin",
      "strict-transport-security": expect.stringContaining("max-age="),
    });
    const unknown = await server.send("GET", "/nowhere", undefined, { origin: allowed });
    expect(unknown.headers.get("access-control-allow-origin")).toBe(allowed);
  });

  test.each(OTHERS)("other origins cannot read responses: %s", async (origin) => {
    const answer = await get(origin);
    expect(answer.headers.has("access-control-allow-origin")).toBe(false);
    expect(answer.headers.get("vary")).toBe("origin");
  });

  test("an allowed origin gets a preflight response", async () => {
    const ask = {
      origin: allowed,
      "access-control-request-method": "PUT",
      "access-control-request-headers": "authorization,baggage,content-type,sentry-trace",
    };
    const answer = await server.send("OPTIONS", "/user/profile", undefined, ask);
    expect(answer.status).toBe(204);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "access-control-allow-origin": allowed,
      "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
      "access-control-allow-headers": ask["access-control-request-headers"],
      "access-control-max-age": "600",
    });
    const evil = { ...ask, origin: "https://evil.com" };
    expect((await server.send("OPTIONS", "/user/profile", undefined, evil)).status).toBe(405);
    expect((await server.send("OPTIONS", "/nowhere", undefined, { origin: allowed })).status).toBe(
      404,
    );
  });

  test.each([
    { method: "PUT", path: "/nowhere", status: 404 },
    { method: "PATCH", path: "/user/profile", status: 405 },
  ])(
    "the browser may send $method $path, which the server refuses with $status",
    async ({ method, path, status }) => {
      const preflight = { origin: allowed, "access-control-request-method": method };
      const { headers, status: preflightStatus } = await server.send(
        "OPTIONS",
        path,
        undefined,
        preflight,
      );
      expect(preflightStatus).toBe(204);
      expect(headers.get("access-control-allow-methods")).toContain(method);
      const response = await server.send(method, path, undefined, { origin: allowed });
      expect([response.status, response.headers.get("access-control-allow-origin")]).toEqual([
        status,
        allowed,
      ]);
    },
  );

  test("other origins can neither refresh nor clear the cookie", async () => {
    const refresh = (headers: Record<string, string>) =>
      server.send("POST", "/auth/refresh", undefined, headers);
    const refused = { status: 403, body: { code: "CROSS_SITE", error: "Forbidden" } };
    for (const foreign of [
      { origin: "https://evil.com", cookie: "refreshToken=x" },
      { origin: "null" },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "cross-site", origin: allowed },
      { "sec-fetch-site": "same-site", origin: "https://evil.example.com" },
    ]) {
      const answer = await refresh(foreign as Record<string, string>);
      expect(answer).toMatchObject(refused);
      expect(answer.headers.get("set-cookie")).toBeNull();
    }
    const byAnotherName = { origin: "https://10.0.0.7:8443", "sec-fetch-site": "same-origin" }; // of the own pages by another name
    for (const fine of [
      {},
      { origin: ours },
      { origin: allowed, "sec-fetch-site": "same-site" },
      byAnotherName,
    ])
      expect((await refresh(fine)).status).toBe(200);
    expect(
      (await server.send("POST", "/auth/logout", undefined, { origin: "https://evil.com" })).status,
    ).toBe(200);
  });
});

describe("Client address", () => {
  test.each([
    { what: "no proxy is trusted", trusted: "", forwarded: "6.6.6.6", expected: "127.0.0.1" },
    {
      what: "the socket is no trusted proxy",
      trusted: "10.0.0.1",
      forwarded: "6.6.6.6",
      expected: "127.0.0.1",
    },
    {
      what: "one proxy is trusted, the client's own entries are not",
      trusted: "127.0.0.1",
      forwarded: "6.6.6.6, 9.9.9.9",
      expected: "9.9.9.9",
    },
    {
      what: "several proxies are trusted",
      trusted: "127.0.0.0/8, 10.0.0.0/8",
      forwarded: "6.6.6.6, 9.9.9.9, 10.1.2.3",
      expected: "9.9.9.9",
    },
    {
      what: "all entries are trusted proxies",
      trusted: "127.0.0.1,10.0.0.0/8",
      forwarded: "10.0.0.2",
      expected: "10.0.0.2",
    },
    {
      what: "an entry is no address",
      trusted: "127.0.0.1",
      forwarded: "9.9.9.9, evil<script>",
      expected: "127.0.0.1",
    },
    {
      what: "the client has IPv6",
      trusted: "127.0.0.1",
      forwarded: "2001:DB8::0:1",
      expected: "2001:db8::1",
    },
    {
      what: "an IPv4 address is written as IPv6",
      trusted: "127.0.0.1",
      forwarded: "::ffff:9.9.9.9",
      expected: "9.9.9.9",
    },
    {
      what: "the proxy writes a port",
      trusted: "127.0.0.1, 10.0.0.1",
      forwarded: "6.6.6.6, 9.9.9.9:51234, 10.0.0.1:443",
      expected: "9.9.9.9",
    },
    {
      what: "the proxy writes brackets",
      trusted: "127.0.0.1",
      forwarded: "[2001:db8::1]",
      expected: "2001:db8::1",
    },
    {
      what: "the proxy writes the zone of a link-local address",
      trusted: "127.0.0.1",
      forwarded: "fe80::1%br-lan",
      expected: "fe80::1",
    },
    {
      what: "the proxy writes brackets and a port",
      trusted: "127.0.0.1",
      forwarded: "[2001:db8::1]:51234",
      expected: "2001:db8::1",
    },
    { what: "the header is empty", trusted: "127.0.0.1", forwarded: "", expected: "127.0.0.1" },
  ])("is the right one if $what", async ({ trusted, forwarded, expected }) => {
    const server = await forTest(start(routes, { env: { TRUST_PROXY: trusted } }));
    await server.send("GET", "/user/profile", undefined, { "x-forwarded-for": forwarded });
    expect(metadata()["x-gatehouse-client-address"]).toBe(expected);
  });
});

test("X-Forwarded-For from an address that TRUST_PROXY does not list: is ignored, with one warning an hour per port", async () => {
  const app = await forTest(startApp({ mode: "embedded", env: { TRUST_PROXY: "10.0.0.1" } }));
  const warnings = () => app.logs.filter((line) => line.includes("TRUST_PROXY does not list"));
  const forwarded = { "x-forwarded-for": "203.0.113.7" };
  for (let i = 0; i < 3; i++)
    await app.httpClient().send("GET", "/health/live", undefined, forwarded);
  expect(warnings()).toHaveLength(1);
  expect(JSON.parse(warnings()[0] as string)).toMatchObject({ address: "127.0.0.1" });
  for (let i = 0; i < 3; i++) await app.grpc(AuthService).listKeys({}, { headers: forwarded });
  expect(warnings()).toHaveLength(2);
});
