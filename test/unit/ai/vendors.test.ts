import { describe, expect, test } from "vitest";
import { verbatim } from "../../../scripts/simulators/malformed-cases.ts";
import { startSuiteBench } from "./support.ts";

const bench = await startSuiteBench("openai-compatible");

const errorOf = (type: string | null, code: string | number | null) => ({ error: { message: "prose", type, code } });
const delta = (content: string) => ({ data: JSON.stringify({ choices: [{ index: 0, delta: { content } }] }) });
const done = { data: "[DONE]" };

/** The outcomes of a stream and of a complete reply. */
async function outcomesOf(answer: Parameters<typeof verbatim>[0]) {
  return [await bench.stream(verbatim(answer)), await bench.whole(verbatim(answer))];
}

describe("Errors of OpenAI-compatible servers", () => {
  test.each([
    ["DeepSeek, without balance", 402, errorOf("unknown_error", "invalid_request_error"), "quota exhausted"],
    ["DeepSeek, of a wrong key", 401, errorOf("authentication_error", "invalid_request_error"), "refused the key"],
    ["a proxy, of a wrong key", 401, errorOf("invalid_request_error", null), "refused the key"],
    ["a proxy, of too many requests", 429, errorOf("invalid_request_error", null), "rate limited"],
    ["LiteLLM, beyond the budget", 400, errorOf("budget_exceeded", "400"), "quota exhausted"],
    ["Moonshot, without balance", 429, errorOf("exceeded_current_quota_error", null), "quota exhausted"],
    ["Qwen, in arrears", 400, errorOf("Arrearage", "Arrearage"), "quota exhausted"],
    ["Qwen's filter", 400, errorOf("data_inspection_failed", "data_inspection_failed"), "blocked the content"],
    [
      "OpenRouter's filter",
      403,
      { error: { code: 403, message: "prose", metadata: { reasons: ["violence"], flagged_input: "prose" } } },
      "blocked the content",
    ],
    ["vLLM, of a long prompt", 400, errorOf("BadRequestError", 400), "rejected the request"],
    ["a country", 403, errorOf("request_forbidden", "unsupported_country_region_territory"), "rejected the request"],
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
    const events = [delta("Some text"), { data: JSON.stringify(error) }, done];
    const expected = ["Some text", ""].map((text) => ({ text, failure }));
    expect(await outcomesOf({ events, whole: error })).toEqual(expected);
  });
});

describe("Replies of OpenAI-compatible servers", () => {
  const finish = (usage?: object) => ({
    data: JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage }),
  });
  const whole = (message: object, usage?: object) => ({ choices: [{ message, finish_reason: "stop" }], usage });

  test.each([
    ["xAI and Gemini count reasoning in the total", { completion_tokens: 9, total_tokens: 135 }, 103],
    ["others count it as written", { completion_tokens: 103, total_tokens: 135 }, 103],
    ["no total", { completion_tokens: 9 }, 9],
    ["a total of zero", { completion_tokens: 9, total_tokens: 0 }, 9],
  ])("count all output tokens: %s", async (_, counts, outputTokens) => {
    const usage = { prompt_tokens: 32, ...counts };
    const answer = { events: [delta("Hi"), finish(usage), done], whole: whole({ content: "Hi" }, usage) };
    const outcome = { text: "Hi", usage: { inputTokens: 32, outputTokens } };
    expect(await outcomesOf(answer)).toEqual([outcome, outcome]);
  });

  test("with a tool call alone are unreadable, whatever their finish reason", async () => {
    const calls = { tool_calls: [{ index: 0, id: "call_1", function: { name: "look_up", arguments: "{}" } }] };
    const called = { data: JSON.stringify({ choices: [{ index: 0, delta: calls }] }) };
    const outcome = { text: "", failure: "unreadable reply" };
    expect(await outcomesOf({ events: [called, finish(), done], whole: whole(calls) })).toEqual([outcome, outcome]);
  });

  test("with reasoning alone are empty and report usage", async () => {
    const usage = { prompt_tokens: 32, completion_tokens: 50 };
    const thought = { data: JSON.stringify({ choices: [{ index: 0, delta: { reasoning_content: "Hm." } }] }) };
    const answer = { events: [thought, finish(usage), done], whole: whole({ content: null, reasoning: "Hm." }, usage) };
    const outcome = { text: "", usage: { inputTokens: 32, outputTokens: 50 } };
    expect(await outcomesOf(answer)).toEqual([outcome, outcome]);
  });
});
