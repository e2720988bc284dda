import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, expect, test } from "vitest";
import { readCompletion } from "../../../../gateway/formats/openai-request.ts";
import { ServiceError } from "../../../../services/platform/rpc/errors.ts";
import { BASE, type Json, NESTED, SAMPLES } from "../../../support/ai/openai-fields.ts";

const declarations = readFileSync(
  createRequire(import.meta.url)
    .resolve("openai/resources/chat/completions/completions")
    .replace(/js$/, "d.ts"),
  "utf8",
);

/** The fields of an interface in the types of the openai package. */
function fieldsOf(name: string): string[] {
  const [outer = "", inner] = name.split(".");
  const start = inner
    ? declarations.indexOf(`interface ${inner} {`, declarations.indexOf(`namespace ${outer} {`))
    : declarations.search(new RegExp(`export interface ${outer}(?: extends \\w+)? \\{`));
  expect(start, name).toBeGreaterThan(0);
  const indent = inner ? "    " : "";
  const body = declarations.slice(start, declarations.indexOf(`\n${indent}}`, start));
  return [...body.matchAll(new RegExp(`^${indent} {4}(\\w+)\\??:`, "gm"))].map(
    ([, field]) => field as string,
  );
}

/** What becomes of a request: its message as text, and the fields that are refused. */
function outcomeOf(request: Json) {
  try {
    const { message, includeUsage } = readCompletion(request);
    const text = JSON.stringify({ ...message, ignored: [], includeUsage }, (_name, value) =>
      typeof value === "bigint" ? Number(value) : value,
    );
    return { text, ignored: message.ignored, refused: [] };
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return { text: "", ignored: [], refused: error.details.violations ?? [] };
  }
}

/**
 * Whether a request tells what becomes of a field: it is refused by name, ignored by name, or
 * carried.
 */
function fateOf(field: string, without: Json, request: Json): string {
  const [before, after] = [outcomeOf(without), outcomeOf(request)];
  const isNamed = (name: string) => name.split(/[.[\]]+/).includes(field);
  if (after.refused.length > 0)
    return after.refused.some((each) => isNamed(each.field) || isNamed(each.message))
      ? "refused"
      : `refused without its name: ${JSON.stringify(after.refused)}`;
  if (after.ignored.some(isNamed)) return "ignored";
  return after.text === before.text ? "lost" : "carried";
}

test("ChatCompletionCreateParams: every field of the openai package has a sample", () => {
  expect(Object.keys(SAMPLES).sort()).toEqual(fieldsOf("ChatCompletionCreateParamsBase").sort());
  for (const [name, { samples }] of Object.entries(NESTED))
    expect(Object.keys(samples).sort(), name).toEqual(fieldsOf(name).sort());
});

describe("ChatCompletionCreateParams: every field is carried, refused by name or ignored by name", () => {
  test.each(Object.entries(SAMPLES))("%s", (field, value) => {
    const without = field === "stream_options" ? { ...BASE, stream: true } : BASE;
    expect(["carried", "refused", "ignored"]).toContain(
      fateOf(field, without, { ...without, [field]: value }),
    );
  });

  test.each(Object.entries(NESTED))("%s", (_name, { wrap, samples }) => {
    for (const [field, value] of Object.entries(samples)) {
      // a discriminator is one of several, and only says which other fields there are
      if (field === "type" || field === "role") continue;
      const [without, request] = [
        { ...BASE, ...wrap({}) },
        { ...BASE, ...wrap({ [field]: value }) },
      ];
      const fate = fateOf(field, without, request);
      const isWholeRefused = outcomeOf(without).refused.some(({ field }) =>
        /type|role/.test(field),
      );
      if (!isWholeRefused) expect(["carried", "refused", "ignored"], field).toContain(fate);
    }
  });

  test("unknown fields are ignored by name, up to 64 of them", () => {
    const request = {
      ...BASE,
      top_k: 40,
      topK: 1,
      "x y\n": 1,
      messages: [
        { role: "user", content: "a", reasoning_content: "Hm." },
        { role: "user", content: [{ type: "text", text: "a", cache_control: {} }] },
      ],
    };
    expect(outcomeOf(request).ignored).toEqual([
      "top_k",
      "topK",
      "x_y_",
      "messages.reasoning_content",
      "messages.content.cache_control",
    ]);
    const many = Object.fromEntries(Array.from({ length: 65 }, (_each, i) => [`field_${i}`, 1]));
    expect(outcomeOf({ ...BASE, ...many }).refused).toMatchObject([
      { field: "field_0", unsupported: true },
    ]);
  });
});

test("ChatCompletionCreateParams: values that ask for the default are accepted, and null means absent", () => {
  const usual = {
    ...{ n: 1, logprobs: false, top_logprobs: 0, logit_bias: {}, modalities: ["text"] },
    ...{ store: false, functions: [], function_call: "none" },
  };
  const nothing = Object.fromEntries(Object.keys(SAMPLES).map((field) => [field, null]));
  for (const given of [usual, { ...nothing, ...BASE }]) {
    const { refused, ignored } = outcomeOf({ ...BASE, ...given });
    expect({ refused, ignored }).toEqual({ refused: [], ignored: [] });
  }
});
