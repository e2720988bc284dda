import { describe, expect, test } from "vitest";
import { amountInWords, amountText, readAmount } from "../../../services/ai/budgets/amounts.ts";
import { createPeriods } from "../../../services/ai/budgets/periods.ts";
import {
  leastNeedsOf,
  mostInputTokens,
  outputBounds,
} from "../../../services/ai/budgets/upper-bound.ts";
import type { Prompt, RelayPrompt } from "../../../services/ai/providers/provider.ts";

describe("Budget periods", () => {
  const at = (zone: string, time: string) => createPeriods(zone)(new Date(time));

  test("begin at midnight in the time zone", () => {
    expect(at("UTC", "2026-11-28T23:59:59.999Z")).toEqual({
      starts: { day: "2026-11-28", month: "2026-11-01" },
      beganAt: { day: new Date("2026-11-28T00:00:00Z"), month: new Date("2026-11-01T00:00:00Z") },
      endsAt: { day: new Date("2026-11-29T00:00:00Z"), month: new Date("2026-12-01T00:00:00Z") },
    });
    const berlin = at("Europe/Berlin", "2026-10-31T23:30:00Z");
    expect(berlin.starts).toEqual({ day: "2026-11-01", month: "2026-11-01" });
    expect(berlin.beganAt.day).toEqual(new Date("2026-10-31T23:00:00Z"));
    const far = at("Pacific/Kiritimati", "2026-12-31T10:30:00Z");
    expect(far.starts).toEqual({ day: "2027-01-01", month: "2027-01-01" });
    expect(far.endsAt.month).toEqual(new Date("2027-01-31T10:00:00Z"));
  });

  test("follow a change of the clocks, even if it skips midnight", () => {
    const october = at("Europe/Berlin", "2026-10-25T12:00:00Z"); // 25 hours
    expect(october.beganAt.day).toEqual(new Date("2026-10-24T22:00:00Z"));
    expect(october.endsAt.day).toEqual(new Date("2026-10-25T23:00:00Z"));
    const beirut = at("Asia/Beirut", "2026-03-29T12:00:00Z"); // 00:00 is skipped
    expect(beirut.beganAt.day).toEqual(new Date("2026-03-28T22:00:00Z"));
    expect(beirut.endsAt.day).toEqual(new Date("2026-03-29T21:00:00Z"));
  });

  test("are right for times in any order", () => {
    const periodsOf = createPeriods("UTC");
    const days = ["2026-11-28T10:00:00Z", "2026-11-29T00:00:00Z", "2026-11-28T23:59:59Z"];
    expect(days.map((day) => periodsOf(new Date(day)).starts.day)).toEqual([
      "2026-11-28",
      "2026-11-29",
      "2026-11-28",
    ]);
  });
});

describe("Budget amounts", () => {
  test.each([
    ["20", "cost", 20_000_000_000n, "20"],
    ["0.000000001", "cost", 1n, "0.000000001"],
    ["2.50", "cost", 2_500_000_000n, "2.5"],
    ["1000000", "cost", 1_000_000_000_000_000n, "1000000"],
    ["1000000000000000", "tokens", 1_000_000_000_000_000n, "1000000000000000"],
  ] as const)('"%s" of %s is %s, which is written as "%s"', (text, unit, amount, again) => {
    expect(readAmount(text, unit)).toBe(amount);
    expect(amountText(amount, unit)).toBe(again);
  });

  test.each([
    ["-1", "cost"],
    ["", "cost"],
    ["1.", "cost"],
    ["0.0000000001", "cost"],
    ["1000000.000000001", "cost"],
    ["1.5", "tokens"],
    ["1000000000000001", "tokens"],
    ["1e3", "tokens"],
  ] as const)("%s of %s is not an amount", (text, unit) => {
    expect(readAmount(text, unit)).toBeUndefined();
  });

  test("have two decimal places in messages", () => {
    expect(amountInWords(20_000_000_000n, "cost", "EUR")).toBe("20.00 EUR");
    expect(amountInWords(2_130_000n, "cost", "USD")).toBe("0.00213 USD");
    expect(amountInWords(1_000n, "tokens", "USD")).toBe("1000 tokens");
  });
});

describe("Maximum usage of a call", () => {
  const model = { outputTokens: 8_000, overheadTokens: 2_000, imageTokens: 300 } as Prompt["model"];
  const promptOf = (more: Partial<Prompt>): Prompt => ({
    ...{ model, isStream: false, messages: [{ role: "user", parts: [{ text: "Grüße" }] }] },
    ...more,
  });

  test("counts each byte, message, image and overhead token of the input twice", () => {
    expect(mostInputTokens(promptOf({}))).toBe(2 * (7 + 16 + 2_000));
    const image = { mediaType: "image/png", data: "AAAA", url: "", detail: "" };
    const messages: Prompt["messages"] = [
      { role: "user", parts: [{ text: "ab" }, { image }, { image }] },
      { role: "assistant", parts: [], toolCalls: [{ id: "12", name: "find", arguments: "{}" }] },
    ];
    expect(mostInputTokens(promptOf({ messages }))).toBe(2 * (2 + 8 + 32 + 600 + 2_000));
    const tools = [{ name: "find", description: "Finds", parameters: { type: "object" } }];
    expect(mostInputTokens(promptOf({ tools, systemPrompt: "xyz" }))).toBe(
      2 * (7 + 3 + 9 + 17 + 16 + 2_000),
    );
  });

  test("counts the bytes, images and files of a relayed body twice", () => {
    const body = { bytes: 500, images: 2, files: 1 };
    const relayed = { ...model, fileTokens: 9_000 };
    const prompt = { model: relayed, isStream: false, relay: body } as unknown as RelayPrompt;
    expect(mostInputTokens(prompt)).toBe(2 * (500 + 600 + 9_000 + 2_000));
  });

  test("is at least that of a byte, by the cheapest model", () => {
    const rates = { cachedInput: 0n, cacheWrite: 0n, cacheWrite1h: 0n, output: 0n, above: 0 };
    const price = (input: bigint) => [{ ...rates, input }] as const;
    const models = [
      { overheadTokens: 9, price: price(3_000_000n) },
      { overheadTokens: 19, price: price(1_000_000n) },
      { overheadTokens: 4 },
    ];
    expect(leastNeedsOf(models)).toEqual({ tokens: 10n, cost: 40n });
    expect(leastNeedsOf(models.slice(2))).toEqual({ tokens: 10n, cost: 0n });
    expect(leastNeedsOf([{ overheadTokens: 4, price: price(0n) }]).cost).toBe(0n);
  });

  test("is the output maximum of the call, or that of the model with at least 256 tokens", () => {
    expect(outputBounds({ model, maxTokens: 100 })).toEqual({ wanted: 100, least: 100 });
    expect(outputBounds({ model, maxTokens: 9_000 })).toEqual({ wanted: 8_000, least: 8_000 });
    expect(outputBounds({ model, maxTokens: undefined })).toEqual({ wanted: 8_000, least: 256 });
  });
});
