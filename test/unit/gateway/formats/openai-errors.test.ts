import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { openAiFormat } from "../../../../gateway/formats/openai.ts";
import { httpError } from "../../../../gateway/transcode/errors.ts";
import { AIService } from "../../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import {
  ProviderFailure,
  Reason,
  ReasonSchema,
} from "../../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { failWith, startSuiteGateway, transportKinds } from "../../../support/http/gateway.ts";
import { post, sendRawHttp } from "../../../support/http/raw.ts";

const COMPLETION = { model: "m", messages: [{ role: "user", content: "Hello!" }] };
const [type, other, own] = ["invalid_request_error", "server_error", "rate_limit_exceeded"];

/** The response to an error, in short. */
const errorOf = (reason: Reason, details: Parameters<typeof httpError>[2] = {}) => {
  const { status, headers, body } = openAiFormat.error(
    httpError(reason, "Read me.", details),
    true,
  );
  return { status, repeats: headers["x-should-retry"] !== "false", ...(body as { error: object }) };
};

test.each<[name: keyof typeof Reason, status: number, error: object, repeats?: boolean]>([
  ["UNAUTHENTICATED", 401, { type, code: "invalid_api_key" }],
  ["KEY_NOT_ALLOWED", 403, { type, code: "permission_denied" }],
  ["NOT_FOUND", 404, { type, code: "model_not_found", param: "model" }],
  ["PROVIDER_NOT_CONFIGURED", 404, { type, code: "model_not_found", param: "model" }],
  ["MALFORMED_REQUEST", 400, { type, code: "malformed_request" }],
  ["PAYLOAD_TOO_LARGE", 413, { type, code: "payload_too_large" }],
  ["UNSUPPORTED_MEDIA_TYPE", 415, { type, code: "unsupported_media_type" }],
  ["REQUEST_TIMEOUT", 408, { type, code: "request_timeout" }, true],
  ["RATE_LIMITED", 429, { type: own, code: "rate_limit_exceeded" }, true],
  ["TOO_MANY_CONCURRENT", 429, { type: own, code: "too_many_concurrent" }, true],
  ["MODEL_NOT_PRICED", 403, { type, code: "model_not_priced", param: "model" }],
  ["UNAVAILABLE", 503, { type: other, code: "unavailable" }, true],
  ["NOT_IMPLEMENTED", 501, { type: other, code: "not_implemented" }],
  ["UNSPECIFIED", 500, { type: other, code: "internal" }, true],
])("OpenAI's errors: %s is %d", (name, status, error, repeats = false) => {
  const message = name === "UNSPECIFIED" ? expect.any(String) : "Read me.";
  const expected = { status, repeats, error: { param: null, message, ...error } };
  expect(errorOf(Reason[name])).toEqual(expected);
});

test.each([
  [5, true],
  [3_600, false],
  [undefined, false],
])("OpenAI's errors: BUDGET_EXCEEDED for %s s is insufficient_quota", (wait, repeats) => {
  const error = { type: "insufficient_quota", code: "budget_exceeded", param: null };
  expect(errorOf(Reason.BUDGET_EXCEEDED, { retryAfterSeconds: wait })).toMatchObject({
    ...{ status: 429, repeats, error },
  });
});

test.each<[name: keyof typeof ProviderFailure, status: number, code: string, repeats?: boolean]>([
  ["PROMPT_TOO_LONG", 400, "context_length_exceeded"],
  ["REJECTED", 400, "provider_rejected"],
  ["BLOCKED", 400, "content_filter"],
  ["RATE_LIMITED", 429, "provider_rate_limited", true],
  ["OVERLOADED", 503, "provider_overloaded", true],
  ["TIMED_OUT", 504, "provider_timed_out", true],
  ["OTHER", 500, "provider_error", true],
  ["ACCOUNT_REFUSED", 500, "provider_error"],
  ["UNSPECIFIED", 500, "provider_error", true],
])("OpenAI's errors: the provider's failure %s is %d", (name, status, code, repeats = false) => {
  const providerFailure = ProviderFailure[name];
  const expected = { status, repeats, error: { code, param: null, message: "Read me." } };
  expect(errorOf(Reason.PROVIDER_ERROR, { providerFailure })).toMatchObject(expected);
});

test("OpenAI's errors: every reason has a status, a code and a message", () => {
  for (const { number } of ReasonSchema.values) {
    const { status, error } = errorOf(number as Reason) as { status: number; error: object };
    expect(status).toBeGreaterThanOrEqual(400);
    expect(error).toMatchObject({ message: expect.stringMatching(/./), code: expect.any(String) });
  }
});

test("OpenAI's errors: violations have OpenAI's field names, and the first one is param", () => {
  const unsupported = {
    field: "parallelToolCalls",
    message: "is not supported",
    unsupported: true,
  };
  const wrong = { field: "messages[0].parts[1].image.url", message: "must be an address" };
  const error = (...violations: { field: string; message: string }[]) =>
    errorOf(Reason.VALIDATION_FAILED, { violations });
  expect(error(unsupported, wrong)).toEqual({
    status: 400,
    repeats: false,
    error: {
      type,
      code: "unsupported_value",
      param: "parallel_tool_calls",
      message:
        "Invalid request: parallel_tool_calls is not supported; messages[0].content[1].image_url.url must be an address.",
    },
  });
  expect(error(wrong)).toMatchObject({ error: { code: "invalid_value" } });
});

describe.each(transportKinds)("OpenAI's errors %s", async (transportKind) => {
  let failure: Error;
  const server = await startSuiteGateway(
    (router) =>
      router.service(AIService, {
        // biome-ignore lint/correctness/useYield: it fails
        async *complete() {
          throw failure;
        },
        getModel() {
          throw failure;
        },
      }),
    { transportKind },
  );
  const ask = (fields: object = {}) =>
    server.send("POST", "/v1/chat/completions", { ...COMPLETION, ...fields });

  test("a failure before the first event has a status and Retry-After, streamed or not", async () => {
    const details = { providerFailure: ProviderFailure.RATE_LIMITED, retryAfterSeconds: 7 };
    failure = failWith(Reason.PROVIDER_ERROR, Code.Internal, "It is full.", details);
    for (const stream of [false, true]) {
      const { status, headers, body } = await ask({ stream });
      expect([status, headers.get("retry-after"), headers.get("x-should-retry")]).toEqual([
        ...[429, "7", null],
      ]);
      expect(headers.get("content-type")).toBe("application/json; charset=utf-8");
      const code = "provider_rate_limited";
      expect(body).toEqual({ error: { message: "It is full.", type: own, param: null, code } });
    }
  });

  test("a field that the services do not support is named, with advice not to repeat the request", async () => {
    const violations = [{ field: "seed", message: "is not supported by m", unsupported: true }];
    failure = failWith(Reason.VALIDATION_FAILED, Code.InvalidArgument, "No.", { violations });
    const { status, headers, body } = await ask();
    expect([status, headers.get("x-should-retry")]).toEqual([400, "false"]);
    expect(body.error).toMatchObject({ param: "seed", code: "unsupported_value" });
  });

  test("an unknown model is 404, and its name may contain a slash", async () => {
    failure = failWith(Reason.NOT_FOUND, Code.NotFound, "There is no model a/b.");
    const { status, body } = await server.send("GET", "/v1/models/a%2Fb");
    expect({ status, error: body.error }).toMatchObject({
      status: 404,
      error: { param: "model", code: "model_not_found" },
    });
  });

  test("a bug is masked and logged", async () => {
    failure = new Error("password=hunter2");
    const { status, body } = await ask({ stream: true });
    expect({ status, error: body.error }).toMatchObject({
      status: 500,
      error: { type: other, code: "internal" },
    });
    expect(JSON.stringify(body)).not.toContain("hunter2");
  });
});

describe("OpenAI's errors of the port", async () => {
  const server = await startSuiteGateway((router) => router.service(AIService, {}), {
    requestTimeoutMs: 500,
  });

  test.each<[string, string, unknown, number, string]>([
    ["GET", "/v1/nothing", undefined, 404, "unknown_url"],
    ["POST", "/v1/completions", {}, 404, "unknown_url"],
    ["GET", "/v1/", undefined, 404, "unknown_url"],
    ["GET", "/v1", undefined, 404, "unknown_url"],
    ["GET", "/v1/models/%zz", undefined, 400, "malformed_request"],
    ["GET", "/v1/chat/completions", undefined, 405, "method_not_allowed"],
    ["POST", "/v1/chat/completions", "{", 400, "malformed_request"],
    ["POST", "/v1/chat/completions", '{"a":"\\u0000"}', 400, "malformed_request"],
    ["POST", "/v1/chat/completions", "[]", 400, "malformed_request"],
    ["POST", "/v1/chat/completions", { n: 2 }, 400, "unsupported_value"],
    ["POST", "/v1/chat/completions", { audio: {} }, 400, "unsupported_parameter"],
    ["POST", "/v1/chat/completions", { seed: "a" }, 400, "invalid_value"],
  ])("%s %s %j is %d %s", async (method, path, body, status, code) => {
    const answer = await server.send(method, path, body);
    expect(answer.status).toBe(status);
    expect(answer.body).toEqual({
      error: { message: expect.any(String), type, param: answer.body.error.param, code },
    });
    expect(answer.headers.get("x-should-retry")).toBe("false");
  });

  test("a body that is of another type, too large, or too late has its own error", async () => {
    const text = { "content-type": "text/plain" };
    const plain = await server.send("POST", "/v1/chat/completions", "{}", text);
    expect(plain).toMatchObject({ status: 415, body: { error: { type } } });
    const large = await server.send(
      "POST",
      "/v1/chat/completions",
      "x".repeat(8 * 1024 * 1024 + 1),
    );
    expect(large).toMatchObject({ status: 413, body: { error: { code: "payload_too_large" } } });
    const late = await sendRawHttp(server.port, post("/v1/chat/completions", {}).slice(0, -1));
    expect(late).toMatch(/^HTTP\/1.1 408 [\s\S]*"error":\{[\s\S]*"code":"request_timeout"/);
  });

  test("other paths keep the product's own format", async () => {
    for (const path of ["/v1x", "/v10/models", "/ai/v1/models"])
      expect((await server.send("GET", path)).body).toMatchObject({ code: "NOT_FOUND" });
  });

  test("a browser that opens a path gets the error, not a page", async () => {
    const navigation = { "sec-fetch-mode": "navigate", accept: "text/html" };
    const answer = await server.send("GET", "/v1/nothing", undefined, navigation);
    expect(answer).toMatchObject({ status: 404, body: { error: { code: "unknown_url" } } });
  });
});
