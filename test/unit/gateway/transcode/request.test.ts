import { describe, expect, test } from "vitest";
import { transportKinds } from "../../../support/gateway.ts";
import { blamed, JSON_TYPE, startRecordingServices } from "../../../support/stub-services.ts";

describe.each(transportKinds)("Request %s", async (transportKind) => {
  const server = await startRecordingServices(transportKind);

  test("reaches its method with path, body and nothing else", async () => {
    const body = { id: "from-the-body", name: "Ann", role: "admin", locked: null, unknown: { a: [1] } };
    expect(await server.send("PUT", "/admin/users/u%2F1", body)).toMatchObject({ status: 200 });
    expect(server.last()).toMatchObject({ id: "u/1", name: "Ann", role: "admin" });
    expect(server.last()).not.toHaveProperty("locked");
    expect(server.last()).not.toHaveProperty("unknown");
  });

  test("keeps text as it is, up to the whole of Unicode", async () => {
    const password = ' 🗝️ "\\u0041\\" \u2028 é ';
    await server.login({ email: "a@b.cd", password });
    expect(server.last()).toMatchObject({ password });
  });

  test.each([
    ["a number for a string", { email: 5, password: "x" }, ["email"]],
    ["a boolean for a string", { email: "a@b.cd", password: true }, ["password"]],
    ["an object for a string", { email: { $gt: "" }, password: [""] }, ["email", "password"]],
  ])("is refused with %s", async (_what, body, fields) => {
    const answer = await server.login(body);
    expect(answer).toMatchObject({
      status: 400,
      body: { code: "VALIDATION_FAILED", error: "Bad Request", statusCode: 400 },
    });
    expect(blamed(answer)).toEqual(fields);
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
    const answer = await server.send("POST", "/ai/chat", body);
    expect(answer).toMatchObject({ status: 400, body: { code: "VALIDATION_FAILED" } });
    expect(blamed(answer)).toEqual([field]);
  });

  test("refuses numbers beyond a double", async () => {
    const body = '{"provider":"p","messages":[],"temperature":1e999}';
    expect(blamed(await server.send("POST", "/ai/chat", body, JSON_TYPE))).toContain("temperature");
  });

  test("reads null as absent", async () => {
    await server.send("PUT", "/user/profile", { name: null, bio: "b" });
    expect(server.last()).toMatchObject({ bio: "b" });
    expect(Object.hasOwn(server.last() ?? {}, "name")).toBe(false);
  });

  test("lists every invalid field at once by its JSON path, without values", async () => {
    const body = {
      provider: 7,
      messages: [{ role: "user", content: "hidden" }, { role: "robot", content: 1 }, "hidden", null],
      temperature: "hidden",
      maxTokens: 1.5,
      model: "",
    };
    const answer = await server.send("POST", "/ai/chat", body);
    expect(answer.status).toBe(400);
    expect(blamed(answer)?.sort()).toEqual([
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
    const many = await server.send("POST", "/ai/chat", { provider: 7, messages: Array(20).fill(null) });
    expect(many.body).toMatchObject({
      message: expect.stringMatching(
        /^Invalid request: provider must be a string; messages\[0\] [^;]+;.*; and \d+ more\.$/,
      ),
    });
  });

  test("with too many items lists only the list itself", async () => {
    const answer = await server.send("POST", "/ai/chat", { provider: "p", messages: Array(513).fill(0) });
    expect(answer.body).toMatchObject({
      violations: [{ field: "messages", message: "must contain at most 512 items" }],
    });
  });

  test("with a wrong type also lists violations of other fields, and counts the field as present", async () => {
    const wrong = await server.send("POST", "/auth/register", {
      email: "nope",
      password: "x",
      name: 1,
      acceptTerms: "true",
    });
    expect(new Set(blamed(wrong))).toEqual(new Set(["name", "acceptTerms", "email", "password"]));
    const code = await server.send("POST", "/auth/verify-mfa", { tempToken: "t", backupCode: 5 });
    expect(blamed(code)).toEqual(["backupCode"]);
  });
});
