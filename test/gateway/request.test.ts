import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AdminService } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { Started } from "./harness.ts";
import { start, ways } from "./harness.ts";

/** The last request message that reached the services. */
let last: object | undefined;
const heard = (message: object) => {
  last = message;
  return {};
};

describe.each(ways)("a request %s", (way) => {
  let edge: Started;
  beforeAll(async () => {
    edge = await start(
      (router) =>
        router
          .service(AuthService, { login: heard, register: heard, logout: heard, refresh: heard, verifyMfa: heard })
          .service(UserService, { updateProfile: heard, deleteAccount: heard, revokeSession: heard, getProfile: heard })
          .service(AdminService, {
            listUsers: heard,
            updateUser: heard,
            listAuditLogs: heard,
            revokeUserSessions: heard,
          })
          .service(AIService, { chat: heard }),
      { way },
    );
  });
  afterAll(() => edge.close());

  const json = { "content-type": "application/json" };
  const login = (body: unknown, headers = json) => edge.send("POST", "/auth/login", body, headers);
  const violations = (answer: { body: { violations?: { field: string }[] } }) =>
    answer.body.violations?.map((v) => v.field);

  test("reaches its method with path, body and nothing else", async () => {
    const body = { id: "from-the-body", name: "Ann", role: "admin", locked: null, unknown: { a: [1] } };
    expect(await edge.send("PUT", "/admin/users/u%2F1", body)).toMatchObject({ status: 200 });
    expect(last).toMatchObject({ id: "u/1", name: "Ann", role: "admin" });
    expect(last).not.toHaveProperty("locked");
    expect(last).not.toHaveProperty("unknown");
  });

  test("keeps text as it is, up to the whole of Unicode", async () => {
    const password = ' 🗝️ "\\u0041\\" \u2028 é ';
    await login({ email: "a@b.cd", password });
    expect(last).toMatchObject({ password });
  });

  test.each([
    ["a number for a string", { email: 5, password: "x" }, ["email"]],
    ["a boolean for a string", { email: "a@b.cd", password: true }, ["password"]],
    ["an object for a string", { email: { $gt: "" }, password: [""] }, ["email", "password"]],
  ])("is refused with %s", async (_what, body, fields) => {
    const answer = await login(body);
    expect(answer).toMatchObject({
      status: 400,
      body: { code: "VALIDATION_FAILED", error: "Bad Request", statusCode: 400 },
    });
    expect(violations(answer)).toEqual(fields);
  });

  test("is told of every offending field at once, by its JSON path, and of no value", async () => {
    const body = {
      provider: 7,
      messages: [{ role: "user", content: "hidden" }, { role: "robot", content: 1 }, "hidden", null],
      temperature: "hidden",
      maxTokens: 1.5,
      model: "",
    };
    const answer = await edge.send("POST", "/ai/chat", body);
    expect(answer.status).toBe(400);
    expect(violations(answer)?.sort()).toEqual([
      "maxTokens",
      "messages[1].content",
      "messages[1].role",
      "messages[2]",
      "messages[3]",
      "model",
      "provider",
      "temperature",
    ]);
    expect(answer.text).not.toContain("hidden");
  });

  test("with a wrong type is told what the field rules say of the rest, a field given wrongly counting as given", async () => {
    const wrong = await edge.send("POST", "/auth/register", {
      email: "nope",
      password: "x",
      name: 1,
      acceptTerms: "true",
    });
    expect(new Set(violations(wrong))).toEqual(new Set(["name", "acceptTerms", "email", "password"]));
    const code = await edge.send("POST", "/auth/verify-mfa", { tempToken: "t", backupCode: 5 });
    expect(violations(code)).toEqual(["backupCode"]);
  });

  test.each([
    ["temperature", "1"],
    ["temperature", "NaN"],
    ["temperature", "Infinity"],
    ["maxTokens", "10"],
    ["maxTokens", 1.5],
    ["maxTokens", 2 ** 31],
    ["messages", {}],
    ["messages", "x"],
    ["systemPrompt", 0],
  ])("never coerces %s from %j", async (field, value) => {
    const body = { provider: "p", messages: [{ role: "user", content: "x" }], [field]: value };
    const answer = await edge.send("POST", "/ai/chat", body);
    expect(answer).toMatchObject({ status: 400, body: { code: "VALIDATION_FAILED" } });
    expect(violations(answer)).toEqual([field]);
  });

  test("takes no number beyond a double", async () => {
    const answer = await edge.send("POST", "/ai/chat", '{"provider":"p","messages":[],"temperature":1e999}', json);
    expect(violations(answer)).toContain("temperature");
  });

  test("takes null for absent", async () => {
    await edge.send("PUT", "/user/profile", { name: null, bio: "b" });
    expect(last).toMatchObject({ bio: "b" });
    expect(Object.hasOwn(last ?? {}, "name")).toBe(false);
  });

  test.each([
    ["broken JSON", '{"email":'],
    ["a list", "[]"],
    ["a string", '"x"'],
    ["a number", "1"],
    ["null", "null"],
    ["two values", "{} {}"],
    ["a repeated key", '{"email":"a@b.cd","password":"x","email":"c@d.ef"}'],
    ["a repeated key, once escaped", '{"email":"a@b.cd","\\u0065mail":"c@d.ef","password":"x"}'],
    ["a repeated key deep in an unknown field", '{"email":"a@b.cd","password":"x","deep":[{"a":1,"a":2}]}'],
    ["deep nesting", `{"email":"a@b.cd","password":"x","deep":${"[".repeat(1000)}${"]".repeat(1000)}}`],
    ["a NUL in an unknown field", '{"email":"a@b.cd","password":"x","other":"\\u0000"}'],
    ["a lone surrogate in an unknown key", '{"email":"a@b.cd","password":"x","\\ud800":1}'],
    ["a raw NUL", '{"email":"a@b.cd","password":"\0"}'],
    ["NaN", '{"email":NaN}'],
    ["a comment", '{/* */"email":"a@b.cd"}'],
  ])("is malformed with %s", async (_what, body) => {
    const answer = await login(body);
    expect(answer).toMatchObject({
      status: 400,
      body: { statusCode: 400, error: "Bad Request", code: "MALFORMED_REQUEST" },
    });
  });

  test.each([
    ["NUL", '"a\\u0000b"'],
    ["a lone high surrogate", '"\\ud83d"'],
    ["a lone low surrogate", '"\\udd11 x"'],
  ])("is refused with %s in a field, which is named", async (_what, text) => {
    const answer = await login(`{"email":"a@b.cd","password":${text}}`);
    expect(answer).toMatchObject({ status: 400, body: { code: "VALIDATION_FAILED" } });
    expect(violations(answer)).toEqual(["password"]);
  });

  test("is malformed in any encoding but valid UTF-8", async () => {
    for (const bytes of [
      [0xff, 0xfe],
      [0xc0, 0x80],
      [0xed, 0xa0, 0x80],
      [0xe2, 0x82],
    ]) {
      const body = Buffer.concat([
        Buffer.from('{"email":"a@b.cd","password":"'),
        Buffer.from(bytes),
        Buffer.from('"}'),
      ]);
      expect(await login(body)).toMatchObject({ status: 400, body: { code: "MALFORMED_REQUEST" } });
    }
  });

  test("with __proto__ or constructor as keys harms nothing", async () => {
    const answer = await login(
      '{"__proto__":{"admin":true},"constructor":{"prototype":{"x":1}},"email":"a@b.cd","password":"x"}',
    );
    expect(answer.status).toBe(200);
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
    expect(last).toMatchObject({ email: "a@b.cd" });
  });

  test.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/jsonp",
    "application/json; charset=latin1",
    "x",
  ])("of content type %s is refused", async (type) => {
    const answer = await login('{"email":"a@b.cd","password":"x"}', { "content-type": type });
    expect(answer).toMatchObject({
      status: 415,
      body: { code: "UNSUPPORTED_MEDIA_TYPE", error: "Unsupported Media Type" },
    });
  });

  test("with a body but no content type, or a compressed one, is refused", async () => {
    const body = new Uint8Array(Buffer.from('{"email":"a@b.cd","password":"x"}'));
    const plain = await fetch(`${edge.url}/auth/login`, { method: "POST", body });
    expect(plain.headers.get("x-request-id")).toBeTruthy();
    expect(plain.status).toBe(415);
    expect((await login("{}", { ...json, "content-encoding": "gzip" } as never)).status).toBe(415);
  });

  test.each(["application/json", "Application/JSON;charset=UTF-8", 'application/json; charset="utf-8"'])(
    "of content type %s is read",
    async (type) => {
      expect((await login('{"email":"a@b.cd","password":"x"}', { "content-type": type })).status).toBe(200);
    },
  );

  test("may be empty, with or without content type, where the method needs no field", async () => {
    for (const [method, path] of [
      ["POST", "/auth/logout"],
      ["POST", "/user/delete-account"],
      ["DELETE", "/user/sessions/1"],
      ["DELETE", "/admin/users/1/sessions"],
      ["GET", "/user/profile"],
    ] as const) {
      expect((await edge.send(method, path)).status, path).toBe(200);
      if (method !== "GET") expect((await edge.send(method, path, "", json)).status, path).toBe(200);
    }
  });

  test("has its body ignored, but not unbounded, where the method takes none", async () => {
    expect((await edge.send("POST", "/auth/logout", "not JSON", json)).status).toBe(200);
    expect((await edge.send("DELETE", "/user/sessions/1", { id: "2" })).status).toBe(200);
    expect(last).toMatchObject({ id: "1" });
    expect((await edge.send("POST", "/auth/logout", "x".repeat(20_000), json)).status).toBe(413);
    expect((await edge.send("POST", "/auth/logout", "x", { "content-type": "text/plain" })).status).toBe(415);
  });

  test("over 16 KiB, or 2 MiB for the AI, is too large", async () => {
    const padded = (size: number) =>
      JSON.stringify({ email: "a@b.cd", password: "x", pad: "" }).replace('""', `"${"x".repeat(size)}"`);
    expect((await login(padded(16_000))).status).toBe(200);
    const large = await login(padded(17_000));
    expect(large).toMatchObject({ status: 413, body: { code: "PAYLOAD_TOO_LARGE", error: "Payload Too Large" } });
    expect((await edge.send("POST", "/ai/chat", padded(1_000_000), json)).status).toBe(200);
    expect((await edge.send("POST", "/ai/chat", padded(2_100_000), json)).status).toBe(413);
    const chunked = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 40; i++) controller.enqueue(new Uint8Array(1_000).fill(32));
        controller.close();
      },
    });
    const init = { method: "POST", body: chunked, headers: json, duplex: "half" } as RequestInit;
    expect((await fetch(`${edge.url}/auth/login`, init)).status).toBe(413);
  });

  test("reads a query by the types of its fields", async () => {
    const query = "limit=20&page=2&search=a%20b%2Bc+d&role=admin&emailVerified=true&locked=false&unknown=1&&";
    expect((await edge.send("GET", `/admin/users?${query}`)).status).toBe(200);
    expect(last).toMatchObject({
      limit: 20,
      page: 2,
      search: "a b+c d",
      role: "admin",
      emailVerified: true,
      locked: false,
    });
    await edge.send("GET", "/admin/audit-logs?from=2026-01-31T12:00:00.5%2B01:00");
    expect(last).toMatchObject({ from: { seconds: 1769857200n, nanos: 500_000_000 } });
    await edge.send("GET", "/admin/users");
    expect(Object.hasOwn(last ?? {}, "limit")).toBe(false);
  });

  test.each([
    ["users?limit=ten", "limit"],
    ["users?limit=", "limit"],
    ["users?limit=0x10", "limit"],
    ["users?limit=1e1", "limit"],
    ["users?limit=%2B1", "limit"],
    ["users?limit=-1", "limit"],
    ["users?limit=1.5", "limit"],
    ["users?limit=4294967296", "limit"],
    ["users?limit=1&limit=2", "limit"],
    ["users?search=a&search=b", "search"],
    ["users?emailVerified=1", "emailVerified"],
    ["users?emailVerified=TRUE", "emailVerified"],
    ["users?locked", "locked"],
    ["users?search=%00", "search"],
    ["audit-logs?from=yesterday", "from"],
    ["audit-logs?from=2026-13-01T00:00:00Z", "from"],
    ["audit-logs?from=2026-01-01", "from"],
  ])("with the query %s is not valid", async (query, field) => {
    const answer = await edge.send("GET", `/admin/${query}`);
    expect(answer).toMatchObject({ status: 400, body: { code: "VALIDATION_FAILED" } });
    expect(violations(answer)).toEqual([field]);
  });

  test.each(["/admin/users?search=%zz", "/admin/users?search=%ff", "/admin/users?%c3=1"])(
    "to %s is malformed",
    async (path) => {
      expect(await edge.send("GET", path)).toMatchObject({ status: 400, body: { code: "MALFORMED_REQUEST" } });
    },
  );

  test("with a NUL in its path is not valid", async () => {
    const answer = await edge.send("DELETE", "/user/sessions/a%00b");
    expect(answer.status).toBe(400);
    expect(violations(answer)).toEqual(["id"]);
  });

  test("fills a field from its cookie, and from nowhere else", async () => {
    const cookie = "theme=dark; refreshToken=abc.def.ghi; refreshToken=other";
    await edge.send("POST", "/auth/refresh", { refreshToken: "body" }, { cookie });
    expect(last).toMatchObject({ refreshToken: "abc.def.ghi" });
    await edge.send("POST", "/auth/refresh?refreshToken=query", { refreshToken: "body" });
    expect(last).toMatchObject({ refreshToken: "" });
  });
});
