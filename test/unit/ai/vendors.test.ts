import { describe, expect, test } from "vitest";
import { verbatim } from "../../../scripts/simulators/malformed-cases.ts";
import { startSuiteBench } from "./support.ts";

const bench = await startSuiteBench("openai-compatible");

const errorOf = (type: string | null, code: string | number | null) => ({
  error: { message: "prose", type, code },
});
const piece = (delta: object) => ({ data: JSON.stringify({ choices: [{ index: 0, delta }] }) });
const done = { data: "[DONE]" };

/** The outcomes of a stream and of a complete reply. */
async function outcomesOf(answer: Parameters<typeof verbatim>[0]) {
  return [await bench.stream(verbatim(answer)), await bench.whole(verbatim(answer))];
}

describe("Errors of OpenAI-compatible servers", () => {
  test.each([
    {
      what: "DeepSeek, without balance",
      status: 402,
      body: errorOf("unknown_error", "invalid_request_error"),
      failure: "quota exhausted",
    },
    {
      what: "DeepSeek, with a wrong key",
      status: 401,
      body: errorOf("authentication_error", "invalid_request_error"),
      failure: "refused the key",
    },
    {
      what: "a proxy, with a wrong key",
      status: 401,
      body: errorOf("invalid_request_error", null),
      failure: "refused the key",
    },
    {
      what: "a proxy, after too many requests",
      status: 429,
      body: errorOf("invalid_request_error", null),
      failure: "rate limited",
    },
    {
      what: "LiteLLM, beyond the budget",
      status: 400,
      body: errorOf("budget_exceeded", "400"),
      failure: "quota exhausted",
    },
    {
      what: "Moonshot, without balance",
      status: 429,
      body: errorOf("exceeded_current_quota_error", null),
      failure: "quota exhausted",
    },
    {
      what: "Qwen, in arrears",
      status: 400,
      body: errorOf("Arrearage", "Arrearage"),
      failure: "quota exhausted",
    },
    {
      what: "MiniMax, without balance",
      status: 429,
      body: errorOf("insufficient_balance_error", null),
      failure: "quota exhausted",
    },
    {
      what: "a vendor, without balance",
      status: 400,
      body: errorOf("InsufficientBalance", null),
      failure: "quota exhausted",
    },
    {
      what: "Anthropic, without credit",
      status: 400,
      body: {
        type: "error",
        error: { type: "invalid_request_error", message: "Your credit balance is too low." },
      },
      failure: "quota exhausted",
    },
    {
      what: "Zhipu, without balance",
      status: 429,
      body: { error: { code: "1113", message: "Insufficient balance. Please recharge." } },
      failure: "quota exhausted",
    },
    {
      what: "SiliconFlow, without balance",
      status: 403,
      body: { error: { code: 30001, message: "Sorry, your account balance is insufficient" } },
      failure: "quota exhausted",
    },
    {
      what: "xAI, without credits",
      status: 403,
      body: { error: "Your team has used all available credits." },
      failure: "quota exhausted",
    },
    {
      what: "New API, without quota",
      status: 403,
      body: { error: { type: "new_api_error", code: "insufficient_user_quota", message: "x" } },
      failure: "quota exhausted",
    },
    {
      what: "One API, without quota of the token",
      status: 403,
      body: { error: { type: "one_api_error", message: "token quota is not enough" } },
      failure: "quota exhausted",
    },
    {
      what: "Volcengine, overdue",
      status: 403,
      body: errorOf("Forbidden", "AccountOverdueError"),
      failure: "quota exhausted",
    },
    {
      what: "Anthropic, beyond the limit that its customer has set",
      status: 400,
      body: {
        type: "error",
        error: {
          type: "invalid_request_error",
          message:
            "You have reached your specified API usage limits. You will regain access on 2027-01-01.",
        },
      },
      failure: "quota exhausted",
    },
    {
      what: "Google, without prepaid credits",
      status: 429,
      body: {
        error: {
          code: 429,
          message: "Your prepayment credits are depleted.",
          status: "RESOURCE_EXHAUSTED",
        },
      },
      failure: "quota exhausted",
    },
    {
      what: "a vendor, with a low balance",
      status: 400,
      body: { error: { message: "Wallet balance too low" } },
      failure: "quota exhausted",
    },
    {
      what: "Google, beyond a limit per minute",
      status: 429,
      body: {
        error: {
          code: 429,
          message: "Quota exceeded for metric: generate_content_free_tier_requests, limit: 5",
          status: "RESOURCE_EXHAUSTED",
        },
      },
      failure: "rate limited",
    },
    {
      what: "a load balancer, after too many requests",
      status: 429,
      body: errorOf("load_balancer_error", "rate_limit_exceeded"),
      failure: "rate limited",
    },
    {
      what: "Qwen's filter",
      status: 400,
      body: errorOf("data_inspection_failed", "data_inspection_failed"),
      failure: "blocked the content",
    },
    {
      what: "OpenRouter's filter",
      status: 403,
      body: {
        error: {
          code: 403,
          message: "prose",
          metadata: { reasons: ["violence"], flagged_input: "prose" },
        },
      },
      failure: "blocked the content",
    },
    {
      what: "vLLM, with a long prompt",
      status: 400,
      body: errorOf("BadRequestError", 400),
      failure: "rejected the request",
    },
    {
      what: "an unsupported country",
      status: 403,
      body: errorOf("request_forbidden", "unsupported_country_region_territory"),
      failure: "rejected the request",
    },
  ])("are classified: $what", async ({ status, body, failure }) => {
    const before = bench.simulator.requests.length;
    expect(await outcomesOf({ status, body })).toEqual(Array(2).fill({ text: "", failure }));
    const attempts = failure === "rate limited" ? 3 : 1;
    expect(bench.simulator.requests).toHaveLength(before + 2 * attempts);
  });

  test.each([
    { what: "LiteLLM", error: errorOf("None", "429"), failure: "rate limited" },
    { what: "LiteLLM", error: errorOf(null, "500"), failure: "internal error" },
    { what: "OpenRouter", error: errorOf(null, 402), failure: "quota exhausted" },
    { what: "vLLM", error: errorOf("InternalServerError", 500), failure: "internal error" },
    { what: "Mistral", error: errorOf(null, "3505"), failure: "broke off" },
  ])("are classified in the middle of a stream: $what $error", async ({ error, failure }) => {
    const events = [piece({ content: "Some text" }), { data: JSON.stringify(error) }, done];
    const expected = ["Some text", ""].map((text) => ({ text, failure }));
    expect(await outcomesOf({ events, whole: error })).toEqual(expected);
  });
});

test("Errors of MiniMax are read from base_resp", async () => {
  const failed = (message: string) => ({
    choices: null,
    object: "chat.completion.chunk",
    base_resp: { status_code: 1008, status_msg: message },
  });
  for (const [message, failure] of [
    ["insufficient balance", "quota exhausted"],
    ["output new_sensitive", "broke off"],
  ] as const) {
    const events = [piece({ content: "Half" }), { data: JSON.stringify(failed(message)) }, done];
    const whole = { ...failed(message), object: "chat.completion" };
    expect(await outcomesOf({ events, whole })).toEqual([
      { text: "Half", failure },
      { text: "", failure },
    ]);
  }
  const good = { choices: [{ message: { content: "Hi" }, finish_reason: "stop" }] };
  const whole = { ...good, base_resp: { status_code: 0, status_msg: "" } };
  expect((await outcomesOf({ events: [piece({ content: "Hi" }), done], whole }))[1]).toMatchObject({
    text: "Hi",
  });
});

describe("Errors in a choice of OpenRouter", () => {
  test.each([
    { what: "with a finish reason", finish_reason: "error", code: 429, failure: "rate limited" },
    { what: "without a finish reason", finish_reason: null, code: 502, failure: "internal error" },
    { what: "with a good finish reason", finish_reason: "stop", code: 503, failure: "overloaded" },
  ])("are failures: $what", async ({ finish_reason, code, failure }) => {
    const choice = { index: 0, finish_reason, error: { code, message: "prose" } };
    const half = { content: "Half" };
    const events = [
      piece(half),
      { data: JSON.stringify({ choices: [{ ...choice, delta: {} }] }) },
      done,
    ];
    const whole = { choices: [{ ...choice, message: half }] };
    expect(await outcomesOf({ events, whole })).toEqual([
      { text: "Half", failure },
      { text: "", failure },
    ]);
  });
});

describe("Replies of OpenAI-compatible servers", () => {
  const tool_calls = [{ index: 0, id: "call_1", function: { name: "look_up", arguments: "{}" } }];
  const hi = { content: "Hi" };

  test.each<{
    what: string;
    message: object;
    counts: Record<string, number>;
    text: string;
    output: number | string;
  }>([
    {
      what: "count the reasoning of xAI and Gemini, in the total",
      message: hi,
      counts: { completion_tokens: 9, total_tokens: 135 },
      text: "Hi",
      output: 103,
    },
    {
      what: "count the reasoning of others, as written",
      message: hi,
      counts: { completion_tokens: 103, total_tokens: 135 },
      text: "Hi",
      output: 103,
    },
    {
      what: "count output tokens without a total",
      message: hi,
      counts: { completion_tokens: 9 },
      text: "Hi",
      output: 9,
    },
    {
      what: "count output tokens with a total of zero",
      message: hi,
      counts: { completion_tokens: 9, total_tokens: 0 },
      text: "Hi",
      output: 9,
    },
    {
      what: "with reasoning alone are empty and report usage",
      message: { reasoning: "Hm." },
      counts: { completion_tokens: 50 },
      text: "",
      output: 50,
    },
    {
      what: "with a tool call alone are unreadable, whatever their finish reason",
      message: { tool_calls },
      counts: {},
      text: "",
      output: "unreadable reply",
    },
  ])("$what", async ({ message, counts, text, output }) => {
    const usage = { prompt_tokens: 32, ...counts };
    const finish = {
      data: JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage }),
    };
    const whole = { choices: [{ message, finish_reason: "stop" }], usage };
    const isReply = typeof output === "number";
    const outcome = {
      text,
      ...(isReply ? { usage: { inputTokens: 32, outputTokens: output } } : { failure: output }),
    };
    expect(await outcomesOf({ events: [piece(message), finish, done], whole })).toEqual([
      outcome,
      outcome,
    ]);
  });
});
