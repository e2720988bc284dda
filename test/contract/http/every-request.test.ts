import net from "node:net";
import { describe, expect, test } from "vitest";
import type { StartSpan } from "../../../gateway/lifecycle.ts";
import { commonHeaders, start, startSuiteGateway } from "../../support/http/gateway.ts";
import { post } from "../../support/http/raw.ts";
import { stubAccounts } from "../../support/http/stub-services.ts";
import { forTest } from "../../support/suites.ts";
import { until } from "../../support/until.ts";

const { routes, metadata } = stubAccounts();
const PATHS = ["/user/profile", "/nowhere", "/user/%zz", "/health/live", "/openapi.json"];

describe("Requests", async () => {
  const server = await startSuiteGateway(routes, {
    env: { INTERNAL_SECRET: "between-the-two-of-us" },
  });

  test("keep a valid request id, and get a new one otherwise", async () => {
    const idFor = async (given: string) =>
      (await server.send("GET", "/user/profile", undefined, { "x-request-id": given })).headers.get(
        "x-request-id",
      );
    for (const sane of ["a", "A.b_c-9", "x".repeat(128)])
      expect([await idFor(sane), metadata()["x-request-id"]]).toEqual([sane, sane]);
    for (const other of ["start", "jobs", "", "x".repeat(129), "a b", "a,b", "é", "<script>"])
      expect(await idFor(other)).toMatch(/^[0-9a-f-]{36}$/);
  });

  test.each(PATHS)("get an id, security headers and no-store: %s", async (path) => {
    const { headers } = await server.send("GET", path);
    expect(Object.fromEntries(headers)).toMatchObject(commonHeaders);
    for (const name of ["strict-transport-security", "x-powered-by", "server"])
      expect(headers.has(name), name).toBe(false);
  });

  test("to an unknown path is 404 in the error format, whatever its method, body or type", async () => {
    const body = {
      statusCode: 404,
      error: "Not Found",
      code: "NOT_FOUND",
      message: expect.any(String),
    };
    for (const path of [
      "/user",
      "/user/profile/",
      "/User/profile",
      "/auth/login/x",
      "/%2e%2e/etc/passwd",
    ])
      expect(await server.send("GET", path), path).toMatchObject({ status: 404, body });
    const long = await server.send("POST", "/nope", "x".repeat(100_000), {
      "content-type": "text/plain",
    });
    expect(long).toMatchObject({ status: 404, body });
    expect((await server.send("PROPFIND", "/nope")).status).toBe(404);
  });

  test.each([
    { method: "PATCH", path: "/user/profile", allow: "GET, HEAD, PUT" },
    { method: "DELETE", path: "/user/profile", allow: "GET, HEAD, PUT" },
    { method: "GET", path: "/auth/login", allow: "POST" },
    { method: "GET", path: "/%61uth/log%69n?a=%zz", allow: "POST" },
    { method: "PATCH", path: "/user/sessions/a%2Fb%c3%a9", allow: "DELETE" },
    { method: "HEAD", path: "/auth/login", allow: "POST" },
    { method: "OPTIONS", path: "/auth/login", allow: "POST" },
    { method: "PROPFIND", path: "/auth/login", allow: "POST" },
    { method: "POST", path: "/user/sessions/1", allow: "DELETE" },
    { method: "POST", path: "/admin/users/1?a=b", allow: "GET, HEAD, PUT, DELETE" },
    { method: "GET", path: "/admin/impersonate/1?a=b", allow: "POST" },
    { method: "POST", path: "/health", allow: "GET, HEAD" },
  ])("to $method $path are 405 with Allow", async ({ method, path, allow }) => {
    const answer = await server.send(method, path);
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")?.split(", ").sort()).toEqual(allow.split(", ").sort());
    if (method !== "HEAD")
      expect(answer.body).toMatchObject({
        code: "METHOD_NOT_ALLOWED",
        error: "Method Not Allowed",
      });
  });

  test("pass token, id, address, user agent and the internal secret to the services", async () => {
    await server.send("GET", "/user/profile", undefined, {
      authorization: "Bearer abc",
      "user-agent": `é${"x".repeat(500)}`,
      "x-gatehouse-client-address": "6.6.6.6",
      "x-gatehouse-secret": "guess",
      "x-other": "stays outside",
    });
    expect(metadata()).toEqual({
      authorization: "Bearer abc",
      "x-request-id": expect.any(String),
      "x-gatehouse-client-address": "127.0.0.1",
      "x-gatehouse-client-agent": `${encodeURIComponent("é")}${"x".repeat(399)}`,
      "x-gatehouse-secret": "between-the-two-of-us",
    });
    await server.send("GET", "/user/profile", undefined, { authorization: "Bearer é" }); // metadata cannot contain it
    expect(metadata()).not.toHaveProperty("authorization");
  });

  test("leave one log line each, without token, cookie, body and query", async () => {
    server.logs.length = 0;
    const login = { email: "hidden@b.cd", password: "hidden" };
    await server.send("POST", "/auth/login?hidden=query", login, { cookie: "a=hidden" });
    await server.send("DELETE", "/user/sessions/hidden-id", undefined, {
      authorization: "Bearer hidden",
    });
    await until("the log lines", () => server.logs.length === 2);
    expect(server.logs).toMatchObject([
      {
        method: "POST",
        route: "/auth/login",
        status: 200,
        ms: expect.any(Number),
        requestId: expect.any(String),
      },
      { method: "DELETE", route: "/user/sessions/:id", status: 200 },
    ]);
    expect(JSON.stringify(server.logs)).not.toMatch(/hidden|secret/);
  });
});

test("Tracing: the span of a request continues the caller's span, contains the status, and marks server errors", async () => {
  const spans: object[] = [];
  const startSpan: StartSpan = (name, kind, parent, attributes) => {
    const span = { name, kind, parent, attributes, ended: undefined as unknown };
    spans.push(span);
    return { traceparent: "its own", end: (...ended) => Object.assign(span, { ended }) };
  };
  const server = await forTest(start(routes, { startSpan }));
  await server.send("GET", "/user/profile", undefined, { traceparent: "the caller's" });
  expect(metadata().traceparent).toBe("its own");
  await server.send("GET", "/user/export");
  await server.send("GET", "/nowhere?a=b");
  const socket = net.connect(server.port, "127.0.0.1");
  socket.write(post("/auth/login", { email: "a@b.cd" }).slice(0, -1), () => socket.destroy());
  await until("the last span", () => JSON.stringify(spans.at(-1)).includes("499"));
  const at = (route: string) => ({ attributes: expect.objectContaining({ "http.route": route }) });
  const continued = { kind: "SERVER", parent: "the caller's" };
  const status = (code: number) => ({ "http.response.status_code": code });
  expect(spans).toMatchObject([
    {
      name: "GET /user/profile",
      ...continued,
      ...at("/user/profile"),
      ended: [status(200), undefined],
    },
    {
      name: "GET /user/export",
      parent: undefined,
      ...at("/user/export"),
      ended: [status(501), "501"],
    },
    { name: "GET", attributes: { "http.request.method": "GET" }, ended: [status(404), undefined] },
    { name: "POST /auth/login", ended: [status(499), undefined] },
  ]);
});
