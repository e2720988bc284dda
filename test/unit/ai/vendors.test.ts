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
    [
      "DeepSeek, without balance",
      402,
      errorOf("unknown_error", "invalid_request_error"),
      "quota exhausted",
    ],
    [
      "DeepSeek, of a wrong key",
      401,
      errorOf("authentication_error", "invalid_request_error"),
      "refused the key",
    ],
    ["a proxy, of a wrong key", 401, errorOf("invalid_request_error", null), "refused the key"],
    ["a proxy, of too many requests", 429, errorOf("invalid_request_error", null), "rate limited"],
    ["LiteLLM, beyond the budget", 400, errorOf("budget_exceeded", "400"), "quota exhausted"],
    [
      "Moonshot, without balance",
      429,
      errorOf("exceeded_current_quota_error", null),
      "quota exhausted",
    ],
    ["Qwen, in arrears", 400, errorOf("Arrearage", "Arrearage"), "quota exhausted"],
    [
      "MiniMax, without balance",
      429,
      errorOf("insufficient_balance_error", null),
      "quota exhausted",
    ],
    ["a vendor, without balance", 400, errorOf("InsufficientBalance", null), "quota exhausted"],
    [
      "Anthropic, without credit",
      400,
      {
        type: "error",
        error: { type: "invalid_request_error", message: "Your credit balance is too low." },
      },
      "quota exhausted",
    ],
    [
      "Zhipu, without balance",
      429,
      { error: { code: "1113", message: "Insufficient balance. Please recharge." } },
      "quota exhausted",
    ],
    [
      "SiliconFlow, without balance",
      403,
      { error: { code: 30001, message: "Sorry, your account balance is insufficient" } },
      "quota exhausted",
    ],
    [
      "xAI, without credits",
      403,
      { error: "Your team has used all available credits." },
      "quota exhausted",
    ],
    [
      "a balancer, of too many requests",
      429,
      errorOf("load_balancer_error", "rate_limit_exceeded"),
      "rate limited",
    ],
    [
      "Qwen's filter",
      400,
      errorOf("data_inspection_failed", "data_inspection_failed"),
      "blocked the content",
    ],
    [
      "OpenRouter's filter",
      403,
      {
        error: {
          code: 403,
          message: "prose",
          metadata: { reasons: ["violence"], flagged_input: "prose" },
        },
      },
      "blocked the content",
    ],
    ["vLLM, of a long prompt", 400, errorOf("BadRequestError", 400), "rejected the request"],
    [
      "a country",
      403,
      errorOf("request_forbidden", "unsupported_country_region_territory"),
      "rejected the request",
    ],
  ])("are classified: %s", async (_, status, body, failure) => {
    const before = bench.simulator.requests.length;
    expect(await outcomesOf({ status, body })).toEqual(Array(2).fill({ text: "", failure }));
    const attempts = failure === "rate limited" ? 3 : 1;
    expect(bench.simulator.requests).toHaveLength(before + 2 * attempts);
  });

  test.each([
    ["LiteLLM", errorOf("None", "429"), "rate limited"],
    ["LiteLLM", errorOf(null, "500"), "internal error"],
    ["OpenRouter", errorOf(null, 402), "quota exhausted"],
    ["vLLM", errorOf("InternalServerError", 500), "internal error"],
    ["Mistral", errorOf(null, "3505"), "broke off"],
  ])("are classified in the middle of a stream: %s %j", async (_, error, failure) => {
    const events = [piece({ content: "Some text" }), { data: JSON.stringify(error) }, done];
    const expected = ["Some text", ""].map((text) => ({ text, failure }));
    expect(await outcomesOf({ events, whole: error })).toEqual(expected);
  });
});

describe("Errors in a choice of OpenRouter", () => {
  test.each([
    ["with a finish reason", "error", 429, "rate limited"],
    ["without a finish reason", null, 502, "internal error"],
    ["with a good finish reason", "stop", 503, "overloaded"],
  ])("are failures: %s", async (_, finish_reason, code, failure) => {
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

  test.each<
    [
      what: string,
      message: object,
      counts: Record<string, number>,
      text: string,
      output: number | string,
    ]
  >([
    [
      "count the reasoning of xAI and Gemini, in the total",
      hi,
      { completion_tokens: 9, total_tokens: 135 },
      "Hi",
      103,
    ],
    [
      "count the reasoning of others, as written",
      hi,
      { completion_tokens: 103, total_tokens: 135 },
      "Hi",
      103,
    ],
    ["count output tokens without a total", hi, { completion_tokens: 9 }, "Hi", 9],
    [
      "count output tokens with a total of zero",
      hi,
      { completion_tokens: 9, total_tokens: 0 },
      "Hi",
      9,
    ],
    [
      "with reasoning alone are empty and report usage",
      { reasoning: "Hm." },
      { completion_tokens: 50 },
      "",
      50,
    ],
    [
      "with a tool call alone are unreadable, whatever their finish reason",
      { tool_calls },
      {},
      "",
      "unreadable reply",
    ],
  ])("%s", async (_, message, counts, text, output) => {
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
