import { describe, expect, test } from "vitest";
import { transportKinds } from "../../../support/http/gateway.ts";
import { blamed, startRecordingServices } from "../../../support/http/stub-services.ts";

describe.each(transportKinds)("Request %s", async (transportKind) => {
  const server = await startRecordingServices(transportKind);

  test("reaches its method with path and body only, where null means absent", async () => {
    const body = {
      id: "from-the-body",
      name: "Ann",
      role: "admin",
      locked: null,
      unknown: { a: [1] },
    };
    expect(await server.send("PUT", "/admin/users/u%2F1", body)).toMatchObject({ status: 200 });
    expect(server.last()).toMatchObject({ id: "u/1", name: "Ann", role: "admin" });
    expect(server.last()).not.toHaveProperty("locked");
    expect(server.last()).not.toHaveProperty("unknown");
  });

  test("keeps text unchanged, with all of Unicode", async () => {
    const password = ' 🗝️ "\\u0041\\" \u2028 é ';
    await server.login({ email: "a@b.cd", password });
    expect(server.last()).toMatchObject({ password });
  });

  const chat = (changes: object) => ({
    provider: "p",
    messages: [{ role: "user", content: "x" }],
    ...changes,
  });
  test.each<{ what: string; path: string; body: unknown; fields: string }>([
    {
      what: "a number for a string",
      path: "/auth/login",
      body: { email: 5, password: "x" },
      fields: "email",
    },
    {
      what: "a boolean for a string",
      path: "/auth/login",
      body: { email: "a@b.cd", password: true },
      fields: "password",
    },
    {
      what: "objects for strings",
      path: "/auth/login",
      body: { email: { $gt: "" }, password: [""] },
      fields: "email password",
    },
    {
      what: "a number as text",
      path: "/ai/chat",
      body: chat({ temperature: "1" }),
      fields: "temperature",
    },
    {
      what: "NaN as text",
      path: "/ai/chat",
      body: chat({ temperature: "NaN" }),
      fields: "temperature",
    },
    {
      what: "Infinity as text",
      path: "/ai/chat",
      body: chat({ temperature: "Infinity" }),
      fields: "temperature",
    },
    {
      what: "an integer as text",
      path: "/ai/chat",
      body: chat({ maxTokens: "10" }),
      fields: "maxTokens",
    },
    {
      what: "a fraction for an integer",
      path: "/ai/chat",
      body: chat({ maxTokens: 1.5 }),
      fields: "maxTokens",
    },
    {
      what: "a number beyond a double",
      path: "/ai/chat",
      body: '{"provider":"p","messages":[],"temperature":1e999}',
      fields: "messages temperature",
    },
    {
      what: "an object for a list",
      path: "/ai/chat",
      body: chat({ messages: {} }),
      fields: "messages",
    },
    {
      what: "a string for a list",
      path: "/ai/chat",
      body: chat({ messages: "x" }),
      fields: "messages",
    },
    {
      what: "too many items of a wrong type",
      path: "/ai/chat",
      body: chat({ messages: Array(513).fill(0) }),
      fields: "messages",
    },
    {
      what: "zero for a string",
      path: "/ai/chat",
      body: chat({ systemPrompt: 0 }),
      fields: "systemPrompt",
    },
    {
      what: "wrong types at several paths",
      path: "/ai/chat",
      body: {
        provider: 7,
        messages: [
          { role: "user", content: "hidden" },
          { role: "robot", content: 1 },
          "hidden",
          null,
        ],
        temperature: "hidden",
        maxTokens: 1.5,
        model: "",
      },
      fields:
        "maxTokens messages[1].content messages[1].role messages[2] messages[3] model provider temperature",
    },
    {
      what: "wrong types and wrong values",
      path: "/auth/register",
      body: { email: "nope", password: "x", name: 1, acceptTerms: "true" },
      fields: "acceptTerms email name password",
    },
    {
      what: "a wrong type, which counts as present",
      path: "/auth/verify-mfa",
      body: { tempToken: "t", backupCode: 5 },
      fields: "backupCode",
    },
  ])(
    "is rejected with $what: every invalid field is listed, without values",
    async ({ path, body, fields }) => {
      const answer = await server.send("POST", path, body);
      const error = { code: "VALIDATION_FAILED", error: "Bad Request", statusCode: 400 };
      expect(answer).toMatchObject({ status: 400, body: error });
      expect([...new Set(blamed(answer))].sort()).toEqual(fields.split(" "));
      expect(answer.text).not.toContain("hidden");
    },
  );

  test("with many errors has a message with the first ones", async () => {
    const many = await server.send("POST", "/ai/chat", {
      provider: 7,
      messages: Array(20).fill(null),
    });
    const first =
      /^Invalid request: provider must be a string; messages\[0\] [^;]+;.*; and \d+ more\.$/;
    expect(many.body.message).toMatch(first);
  });

  test("has query values converted to the types of their fields", async () => {
    const query =
      "limit=20&page=2&search=a%20b%2Bc+d&role=admin&emailVerified=true&locked=false&unknown=1&&";
    expect((await server.send("GET", `/admin/users?${query}`)).status).toBe(200);
    const filter = { search: "a b+c d", role: "admin", emailVerified: true, locked: false };
    expect(server.last()).toMatchObject({ limit: 20, page: 2, ...filter });
    await server.send("GET", "/admin/audit-logs?from=2026-01-31T12:00:00.5%2B01:00");
    expect(server.last()).toMatchObject({ from: { seconds: 1769857200n, nanos: 500_000_000 } });
    await server.send("GET", "/admin/users");
    expect(Object.hasOwn(server.last() ?? {}, "limit")).toBe(false);
  });

  test.each([
    ["users?limit=ten", "limit"],
    ["users?limit=", "limit"],
    ["users?limit=0x10", "limit"],
    ["users?limit=1e1", "limit"],
    ["users?limit=%2B1", "limit"],
    ["users?limit=1.5", "limit"],
    ["users?limit=1&limit=2", "limit"],
    ["users?search=a&search=b", "search"],
    ["users?emailVerified=1", "emailVerified"],
    ["users?emailVerified=TRUE", "emailVerified"],
    ["users?locked", "locked"],
    ["users?search=%00", "search"],
    ["audit-logs?from=yesterday", "from"],
    ["audit-logs?from=2026-13-01T00:00:00Z", "from"],
    ["audit-logs?from=2026-01-01", "from"],
    ["audit-logs?from=2026-02-30T00:00:00Z", "from"],
    ["users/a%00b", "id"],
    ["users?search=%zz", undefined],
    ["users?search=%ff", undefined],
    ["users?%c3=1", undefined],
  ])(
    "to GET /admin/%s is rejected, with the name of the field if it can be read",
    async (path, field) => {
      const answer = await server.send("GET", `/admin/${path}`);
      const code = field ? "VALIDATION_FAILED" : "MALFORMED_REQUEST";
      expect(answer).toMatchObject({ status: 400, body: { code } });
      expect(blamed(answer)).toEqual(field && [field]);
    },
  );

  test("with an overlong id in its path reaches its method, which can name the field", async () => {
    const id = "a".repeat(10_000);
    await server.send("DELETE", `/user/sessions/${id}`);
    expect(server.last()).toMatchObject({ id });
  });

  test("has a cookie field only from its cookie", async () => {
    const cookie = "theme=dark; refreshToken=abc.def.ghi; myRefreshToken=other";
    await server.send("POST", "/auth/refresh", { refreshToken: "body" }, { cookie });
    expect(server.last()).toMatchObject({ refreshToken: "abc.def.ghi" });
    await server.send("POST", "/auth/refresh?refreshToken=query", { refreshToken: "body" });
    expect(server.last()).toMatchObject({ refreshToken: "" });
    const twice = { cookie: "refreshToken=abc.def.ghi; refreshToken=other" };
    await server.send("POST", "/auth/refresh", undefined, twice);
    expect(server.last()).toMatchObject({ refreshToken: "" });
  });
});
