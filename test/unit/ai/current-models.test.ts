import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { readCatalogue } from "../../../services/ai/catalogue.ts";

/** The models that an SDK knows, and what it says of those that are deprecated. */
type Models = { known: Set<string>; deprecated: Map<string, string> };

const sdkFile = (path: string) => readFileSync(`node_modules/${path}`, "utf8");

/** The names in a union of string literals. */
const namesIn = (source: string, declaration: RegExp) =>
  new Set([...(declaration.exec(source)?.[1] ?? "").matchAll(/['"]([\w.-]+)['"]/g)].map(wordOf));
const wordOf = ([, word = ""]: RegExpMatchArray) => word;

/** OpenAI lists them in the comment on its type: names, then what will happen to them. */
function modelsOfOpenai(): Models {
  const source = sdkFile("openai/resources/shared.d.ts");
  const [, comment = ""] =
    /Deprecated values:(.*?)\*\/\s*export type ChatModel\b/s.exec(source) ?? [];
  const deprecated = new Map<string, string>();
  for (const entry of comment.replace(/\n \*/g, " ").split(" - ").slice(1)) {
    const [, names = "", fate = ""] = /^(.*?"): +(.*)$/s.exec(entry.replace(/\s+/g, " ")) ?? [];
    for (const name of names.matchAll(/"([\w.-]+)"/g)) deprecated.set(wordOf(name), fate);
  }
  const chat = namesIn(source, /export type ChatModel = ([^;]*);/);
  const embeddings = sdkFile("openai/resources/embeddings.d.ts");
  const vectors = namesIn(embeddings, /export type EmbeddingModel = ([^;]*);/);
  return { known: new Set([...chat, ...vectors]), deprecated };
}

/** Anthropic's client has a table of them and warns when one is used. */
function modelsOfAnthropic(): Models {
  const list = sdkFile("@anthropic-ai/sdk/internal/data/deprecated-models.js");
  const entries = [...list.matchAll(/'([\w.-]+)': '(.*?)'/g)];
  const types = sdkFile("@anthropic-ai/sdk/resources/messages/messages.d.ts");
  return {
    known: namesIn(types, /export type Model = ([^;]*);/),
    deprecated: new Map(entries.map(([, name = "", date = ""]) => [name, date])),
  };
}

/** Google takes them out of its type. */
function modelsOfGoogle(): Models {
  const source = sdkFile("@google/genai/dist/genai.d.ts");
  return { known: namesIn(source, /type Model_2 = ([^;]*);/), deprecated: new Map() };
}

/** The models of each SDK, and one that it deprecates at the installed version. */
const SDKS = {
  openai: { models: modelsOfOpenai(), past: "gpt-4.1" },
  anthropic: { models: modelsOfAnthropic(), past: "claude-sonnet-4-5" },
  google: { models: modelsOfGoogle(), past: undefined },
};

describe.each(["neutral", "native"])("AI catalogue %s", (path) => {
  test.each(Object.entries(SDKS))(
    "contains no model of %s that its SDK deprecates or does not know",
    (dialect, { models: { known, deprecated }, past }) => {
      const { providers } = readCatalogue(path);
      const models = providers
        .filter((provider) => provider.dialect === dialect)
        .flatMap(({ models }) => models);
      expect(models).not.toEqual([]);
      expect(past === undefined || deprecated.has(past)).toBe(true); // the SDK was understood
      const ending = models
        .filter(({ upstream }) => deprecated.has(upstream))
        .map(({ name, upstream }) => `${name} (${upstream}): ${deprecated.get(upstream)}`);
      expect(ending).toEqual([]);
      expect(models.map(({ upstream }) => upstream).filter((name) => !known.has(name))).toEqual([]);
    },
  );

  test("says where each price is published, and when it was last checked", () => {
    const file = new URL(`../../../services/ai/catalogue/${path}.json`, import.meta.url);
    const { pricesAsOf, providers } = JSON.parse(readFileSync(file, "utf8"));
    const prices = providers.flatMap(({ models }: { models: { price?: object }[] }) =>
      models.flatMap(({ price }) => price ?? []),
    );
    expect(prices.length).toBeGreaterThan(5);
    for (const { source, checkedOn } of prices) {
      expect(source).toMatch(/^https:\/\/[\w.-]+\.(openai\.com|claude\.com|google\.dev)\//);
      expect(checkedOn >= pricesAsOf).toBe(true);
    }
  });

  test("says when its models were last compared with those of the providers", () => {
    expect(readCatalogue(path).checkedOn).toMatch(/^\d{4}-\d{2}-\d{2}$/);
  });
});
