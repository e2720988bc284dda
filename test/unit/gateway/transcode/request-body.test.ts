import { describe, expect, test } from "vitest";
import { transportKinds } from "../../../support/gateway.ts";
import { blamed, JSON_TYPE, startRecordingServices } from "../../../support/stub-services.ts";

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
    ["a repeated key deep in an unknown field", '{"email":"a@b.cd","password":"x","deep":[{"a":1,"a":2}]}'],
    ["deep nesting", `{"email":"a@b.cd","password":"x","deep":${"[".repeat(1000)}${"]".repeat(1000)}}`],
    ["a NUL in an unknown field", '{"email":"a@b.cd","password":"x","other":"\\u0000"}'],
    ["a lone surrogate in an unknown key", '{"email":"a@b.cd","password":"x","\\ud800":1}'],
    ["a raw NUL", '{"email":"a@b.cd","password":"\0"}'],
    ["NaN", '{"email":NaN}'],
    ["a comment", '{/* */"email":"a@b.cd"}'],
  ])("is malformed with %s", async (_what, body) => {
    const answer = await server.login(body);
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
    const answer = await server.login(`{"email":"a@b.cd","password":${text}}`);
    expect(answer).toMatchObject({ status: 400, body: { code: "VALIDATION_FAILED" } });
    expect(blamed(answer)).toEqual(["password"]);
  });

  test("is 400 MALFORMED_REQUEST unless it is valid UTF-8", async () => {
    for (const bytes of ["fffe", "c080", "eda080", "e282"]) {
      const body = Buffer.from(
        `{"email":"a@b.cd","password":"${Buffer.from(bytes, "hex").toString("latin1")}"}`,
        "latin1",
      );
      expect(await server.login(body)).toMatchObject({ status: 400, body: { code: "MALFORMED_REQUEST" } });
    }
  });

  test("cannot pollute prototypes by the keys __proto__ and constructor", async () => {
    const answer = await server.login(
      '{"__proto__":{"admin":true},"constructor":{"prototype":{"x":1}},"email":"a@b.cd","password":"x"}',
    );
    expect(answer.status).toBe(200);
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
    expect(server.last()).toMatchObject({ email: "a@b.cd" });
  });

  test.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/jsonp",
    "application/json; charset=latin1",
    "x",
  ])("with content type %s is 415", async (type) => {
    const answer = await server.login('{"email":"a@b.cd","password":"x"}', { "content-type": type });
    expect(answer).toMatchObject({
      status: 415,
      body: { code: "UNSUPPORTED_MEDIA_TYPE", error: "Unsupported Media Type" },
    });
  });

  test("without a content type, or compressed, is 415", async () => {
    const body = new Uint8Array(Buffer.from('{"email":"a@b.cd","password":"x"}'));
    const plain = await fetch(`${server.url}/auth/login`, { method: "POST", body });
    expect(plain.headers.get("x-request-id")).toBeTruthy();
    expect(plain.status).toBe(415);
    expect(await server.login("{}", { ...JSON_TYPE, "content-encoding": "gzip" } as never)).toMatchObject({
      status: 415,
      body: { code: "UNSUPPORTED_MEDIA_TYPE", message: "The body must be sent uncompressed." },
    });
  });

  test.each(["application/json", "Application/JSON;charset=UTF-8", 'application/json; charset="utf-8"'])(
    "with content type %s is read",
    async (type) => {
      expect((await server.login('{"email":"a@b.cd","password":"x"}', { "content-type": type })).status).toBe(200);
    },
  );

  test("may be empty if the method needs no field", async () => {
    for (const [method, path] of [
      ["POST", "/auth/logout"],
      ["POST", "/user/delete-account"],
      ["DELETE", "/user/sessions/1"],
      ["DELETE", "/admin/users/1/sessions"],
      ["GET", "/user/profile"],
    ] as const) {
      expect((await server.send(method, path)).status, path).toBe(200);
      if (method !== "GET") expect((await server.send(method, path, "", JSON_TYPE)).status, path).toBe(200);
    }
  });

  test("is ignored, but limited in size, if the method has no body", async () => {
    expect((await server.send("POST", "/auth/logout", "null", JSON_TYPE)).status).toBe(200);
    expect((await server.send("DELETE", "/user/sessions/1", { id: "2" })).status).toBe(200);
    expect(server.last()).toMatchObject({ id: "1" });
    expect((await server.send("POST", "/auth/logout", "x".repeat(20_000), JSON_TYPE)).status).toBe(413);
    expect((await server.send("POST", "/auth/logout", "x", { "content-type": "text/plain" })).status).toBe(415);
  });

  test.each(["{broken", '{"id":"1","id":"2"}', '{"other":"\\u0000"}', "\xff\xfe"])(
    "is malformed with %j, even where the method takes none",
    async (body) => {
      const bytes = Buffer.from(body, "latin1");
      for (const [method, path] of [
        ["POST", "/auth/logout"],
        ["DELETE", "/user/sessions/1"],
        ["DELETE", "/admin/users/1/sessions"],
      ] as const) {
        const malformed = { status: 400, body: { statusCode: 400, code: "MALFORMED_REQUEST" } };
        expect(await server.send(method, path, bytes, JSON_TYPE), path).toMatchObject(malformed);
      }
    },
  );

  test("is 413 above 16 KiB, or 2 MiB for the AI", async () => {
    const padded = (size: number) =>
      JSON.stringify({ email: "a@b.cd", password: "x", pad: "" }).replace('""', `"${"x".repeat(size)}"`);
    expect((await server.login(padded(16_000))).status).toBe(200);
    const large = await server.login(padded(17_000));
    expect(large).toMatchObject({ status: 413, body: { code: "PAYLOAD_TOO_LARGE", error: "Payload Too Large" } });
    expect((await server.send("POST", "/ai/chat", padded(1_000_000), JSON_TYPE)).status).toBe(200);
    expect((await server.send("POST", "/ai/chat", padded(2_100_000), JSON_TYPE)).status).toBe(413);
    const chunked = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 40; i++) controller.enqueue(new Uint8Array(1_000).fill(32));
        controller.close();
      },
    });
    const init = { method: "POST", body: chunked, headers: JSON_TYPE, duplex: "half" } as RequestInit;
    expect((await fetch(`${server.url}/auth/login`, init)).status).toBe(413);
  });
});
