import { describe, expect, test } from "vitest";
import { transportKinds } from "../../../support/http/gateway.ts";
import { blamed, startRecordingServices } from "../../../support/http/stub-services.ts";

describe.each(transportKinds)("Request body %s", async (transportKind) => {
  const server = await startRecordingServices(transportKind);

  test.each([
    ["broken JSON", '{"email":'],
    ["a list", "[]"],
    ["a string", '"x"'],
    ["a number", "1"],
    ["null", "null"],
    ["two values", "{} {}"],
    ["a repeated key", '{"email":"a@b.cd","password":"x","email":"c@d.ef"}'],
    ["a repeated key, once escaped", '{"email":"a@b.cd","\\u0065mail":"c@d.ef","password":"x"}'],
    [
      "a repeated key deep in an unknown field",
      '{"email":"a@b.cd","password":"x","deep":[{"a":1,"a":2}]}',
    ],
    [
      "deep nesting",
      `{"email":"a@b.cd","password":"x","deep":${"[".repeat(1000)}${"]".repeat(1000)}}`,
    ],
    ["a NUL in an unknown field", '{"email":"a@b.cd","password":"x","other":"\\u0000"}'],
    ["a lone surrogate in an unknown key", '{"email":"a@b.cd","password":"x","\\ud800":1}'],
    ["a raw NUL", '{"email":"a@b.cd","password":"\0"}'],
    ["NaN", '{"email":NaN}'],
    ["a comment", '{/* */"email":"a@b.cd"}'],
    ["a byte order mark of UTF-16", '{"email":"a@b.cd","password":"\xff\xfe"}'],
    ["an overlong NUL", '{"email":"a@b.cd","password":"\xc0\x80"}'],
    ["a surrogate in UTF-8", '{"email":"a@b.cd","password":"\xed\xa0\x80"}'],
    ["half a character", '{"email":"a@b.cd","password":"\xe2\x82"}'],
  ])("is malformed with %s", async (_what, body) => {
    const answer = await server.login(Buffer.from(body, "latin1"));
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject({
      statusCode: 400,
      error: "Bad Request",
      code: "MALFORMED_REQUEST",
    });
  });

  test.each([
    ["NUL", '"a\\u0000b"'],
    ["a lone high surrogate", '"\\ud83d"'],
    ["a lone low surrogate", '"\\udd11 x"'],
  ])("is rejected with %s in a field, which is named", async (_what, text) => {
    const answer = await server.login(`{"email":"a@b.cd","password":${text}}`);
    expect(answer).toMatchObject({ status: 400, body: { code: "VALIDATION_FAILED" } });
    expect(blamed(answer)).toEqual(["password"]);
  });

  test("cannot pollute prototypes with the keys __proto__ and constructor", async () => {
    const answer = await server.login(
      '{"__proto__":{"admin":true},"constructor":{"prototype":{"x":1}},"email":"a@b.cd","password":"x"}',
    );
    expect(answer.status).toBe(200);
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
    expect(server.last()).toMatchObject({ email: "a@b.cd" });
  });

  const unsupported = { code: "UNSUPPORTED_MEDIA_TYPE", error: "Unsupported Media Type" };
  test.each<{ type: string; others?: object; message?: unknown }>([
    { type: "text/plain" },
    { type: "application/x-www-form-urlencoded" },
    { type: "application/jsonp" },
    { type: "application/json; charset=latin1" },
    { type: "x" },
    {
      type: "application/json",
      others: { "content-encoding": "gzip" },
      message: "The body must be sent uncompressed.",
    },
  ])(
    "with content type $type and $others is 415",
    async ({ type, others = {}, message = expect.any(String) }) => {
      const answer = await server.login('{"email":"a@b.cd","password":"x"}', {
        "content-type": type,
        ...others,
      });
      expect(answer).toMatchObject({ status: 415, body: { ...unsupported, message } });
    },
  );

  test("without a content type is 415", async () => {
    const body = new Uint8Array(Buffer.from('{"email":"a@b.cd","password":"x"}'));
    expect((await fetch(`${server.url}/auth/login`, { method: "POST", body })).status).toBe(415);
  });

  test.each([
    "application/json",
    "Application/JSON;charset=UTF-8",
    'application/json; charset="utf-8"',
  ])("with content type %s is read", async (type) => {
    expect(
      (await server.login('{"email":"a@b.cd","password":"x"}', { "content-type": type })).status,
    ).toBe(200);
  });

  const optional =
    "POST /auth/logout, POST /user/delete-account, DELETE /user/sessions/1, DELETE /admin/users/1/sessions";
  test.each([...optional.split(", "), "GET /user/profile"])(
    "of %s may be empty if no field is required",
    async (route) => {
      const [method = "", path = ""] = route.split(" ");
      expect((await server.send(method, path)).status).toBe(200);
      if (method !== "GET") expect((await server.send(method, path, "")).status).toBe(200);
    },
  );

  test("is ignored if the method has no body", async () => {
    expect((await server.send("POST", "/auth/logout", "null")).status).toBe(200);
    expect((await server.send("DELETE", "/user/sessions/1", { id: "2" })).status).toBe(200);
    expect(server.last()).toMatchObject({ id: "1" });
  });

  test("is 413 above 16 KiB, or above 2 MiB for AI calls", async () => {
    const padded = (size: number) =>
      JSON.stringify({ email: "a@b.cd", password: "x", pad: "" }).replace(
        '""',
        `"${"x".repeat(size)}"`,
      );
    expect((await server.login(padded(16_000))).status).toBe(200);
    const large = await server.login(padded(17_000));
    expect(large).toMatchObject({
      status: 413,
      body: { code: "PAYLOAD_TOO_LARGE", error: "Payload Too Large" },
    });
    expect((await server.send("POST", "/ai/chat", padded(1_000_000))).status).toBe(200);
    expect((await server.send("POST", "/ai/chat", padded(2_100_000))).status).toBe(413);
  });
});
