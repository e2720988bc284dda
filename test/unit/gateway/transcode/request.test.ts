import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mapErrors } from "../../../../services/interceptors/map-errors.ts";
import { validate } from "../../../../services/interceptors/validate.ts";
import type { Listening } from "../../../support/stub-listeners.ts";
import { blamed, JSON_TYPE, startListening } from "../../../support/stub-listeners.ts";
import { ways } from "../../../support/stub-services.ts";

describe.each(ways)("a request %s", (way) => {
  let edge: Listening;
  beforeAll(async () => {
    edge = await startListening(way);
  });
  afterAll(() => edge.close());

  test("reaches its method with path, body and nothing else", async () => {
    const body = { id: "from-the-body", name: "Ann", role: "admin", locked: null, unknown: { a: [1] } };
    expect(await edge.send("PUT", "/admin/users/u%2F1", body)).toMatchObject({ status: 200 });
    expect(edge.last()).toMatchObject({ id: "u/1", name: "Ann", role: "admin" });
    expect(edge.last()).not.toHaveProperty("locked");
    expect(edge.last()).not.toHaveProperty("unknown");
  });

  test("keeps text as it is, up to the whole of Unicode", async () => {
    const password = ' 🗝️ "\\u0041\\" \u2028 é ';
    await edge.login({ email: "a@b.cd", password });
    expect(edge.last()).toMatchObject({ password });
  });

  test.each([
    ["a number for a string", { email: 5, password: "x" }, ["email"]],
    ["a boolean for a string", { email: "a@b.cd", password: true }, ["password"]],
    ["an object for a string", { email: { $gt: "" }, password: [""] }, ["email", "password"]],
  ])("is refused with %s", async (_what, body, fields) => {
    const answer = await edge.login(body);
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
    const answer = await edge.send("POST", "/ai/chat", body);
    expect(answer).toMatchObject({ status: 400, body: { code: "VALIDATION_FAILED" } });
    expect(blamed(answer)).toEqual([field]);
  });

  test("takes no number beyond a double", async () => {
    const answer = await edge.send("POST", "/ai/chat", '{"provider":"p","messages":[],"temperature":1e999}', JSON_TYPE);
    expect(blamed(answer)).toContain("temperature");
  });

  test("takes null for absent", async () => {
    await edge.send("PUT", "/user/profile", { name: null, bio: "b" });
    expect(edge.last()).toMatchObject({ bio: "b" });
    expect(Object.hasOwn(edge.last() ?? {}, "name")).toBe(false);
  });
});

describe.each(ways)("a request that breaks rules %s", (way) => {
  let edge: Listening;
  beforeAll(async () => {
    edge = await startListening(way, { interceptors: [mapErrors(pino({ level: "silent" }), () => {}), validate] });
  });
  afterAll(() => edge.close());

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
    const many = await edge.send("POST", "/ai/chat", { provider: 7, messages: Array(20).fill(null) });
    expect(many.body).toMatchObject({
      message: expect.stringMatching(
        /^Invalid request: provider must be a string; messages\[0\] [^;]+;.*; and \d+ more\.$/,
      ),
    });
  });

  test("with too many items is told so, and of none of them", async () => {
    const answer = await edge.send("POST", "/ai/chat", { provider: "p", messages: Array(513).fill(0) });
    expect(answer.body).toMatchObject({
      violations: [{ field: "messages", message: "must contain at most 512 items" }],
    });
  });

  test("with a wrong type is told what the field rules say of the rest, a field given wrongly counting as given", async () => {
    const wrong = await edge.send("POST", "/auth/register", {
      email: "nope",
      password: "x",
      name: 1,
      acceptTerms: "true",
    });
    expect(new Set(blamed(wrong))).toEqual(new Set(["name", "acceptTerms", "email", "password"]));
    const code = await edge.send("POST", "/auth/verify-mfa", { tempToken: "t", backupCode: 5 });
    expect(blamed(code)).toEqual(["backupCode"]);
  });
});
