import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type OpenAI from "openai";
import { expect, test } from "vitest";
import { readEmbeddingsRequest } from "../../../../gateway/formats/openai-embeddings.ts";

const BASE = { model: "embed-a", input: "Hello!" };
/** A value of every field of OpenAI's request that asks for something, and what becomes of it. */
const SAMPLES: { [Field in keyof Required<OpenAI.EmbeddingCreateParams>]: [unknown, string] } = {
  model: ["embed-b", "carried"],
  input: [["a", "b"], "carried"],
  dimensions: [256, "carried"],
  encoding_format: ["base64", "carried"],
  user: ["u-1", "ignored"],
};

test("EmbeddingCreateParams: every field of the openai package has a sample", () => {
  const path = createRequire(import.meta.url).resolve("openai/resources/embeddings");
  const declarations = readFileSync(path.replace(/js$/, "d.ts"), "utf8");
  const start = declarations.indexOf("export interface EmbeddingCreateParams {");
  const body = declarations.slice(start, declarations.indexOf("\n}", start));
  const fields = [...body.matchAll(/^ {4}(\w+)\??:/gm)].map(([, field]) => field);
  expect(Object.keys(SAMPLES).sort()).toEqual(fields.sort());
});

test.each([...Object.entries(SAMPLES), ["top_k", [40, "ignored"]] as const])(
  "EmbeddingCreateParams: %s is carried or ignored as documented",
  (field, [value, fate]) => {
    const { ignored: names, ...message } = readEmbeddingsRequest({ ...BASE, [field]: value });
    const { ignored: _names, ...without } = readEmbeddingsRequest(BASE);
    const isCarried = JSON.stringify(message) !== JSON.stringify(without);
    expect(isCarried ? "carried" : "lost").toBe(fate === "carried" ? "carried" : "lost");
    expect(names).toEqual(fate === "ignored" ? [field] : []);
  },
);
