import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { startProviderSimulator } from "../../../scripts/simulators/simulator.ts";
import { type Catalogue, readCatalogue } from "../../../services/ai/catalogue.ts";
import { findTarget } from "../../../services/ai/chat.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";
import { requireConfig } from "../../../services/platform/config/config.ts";
import { forTest } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { promptFor, readReply } from "./support.ts";

/**
 * Writes a catalogue file.
 * @returns its path
 */
function file(content: unknown): string {
  const path = join(temporaryFolder(), "catalogue.json");
  writeFileSync(
    path,
    typeof content === "string" || Buffer.isBuffer(content) ? content : JSON.stringify(content),
  );
  return path;
}

const variablesIn = (environment: Record<string, string>) =>
  requireConfig(environment).catalogueVariables;

const names = (catalogue: Catalogue) =>
  Object.fromEntries(
    catalogue.providers.map(({ id, models }) => [id, models.map(({ name }) => name)]),
  );

const fifth = {
  id: "elsewhere",
  dialect: "openai-compatible",
  keyVariable: "ELSEWHERE_TOKEN",
  baseUrlVariable: "ELSEWHERE",
  baseUrl: "http://127.0.0.1:9/v1",
  models: [
    { name: "big", upstream: "mistral-large-latest", outputTokens: 100, usageOnRequest: false },
  ],
};

describe("AI catalogue", () => {
  test("the shipped file contains the providers and models of the specification", () => {
    expect(names(readCatalogue())).toEqual({
      "provider-a": ["model-a-1", "model-a-2", "model-a-3", "embedding-a-1", "embedding-a-2"],
      "provider-b": ["model-b-1", "model-b-2", "model-b-3", "model-b-4"],
      "provider-c": ["model-c-1", "model-c-2", "model-c-3"],
      "provider-d": ["model-d-1", "model-d-2", "model-d-3", "embedding-d-1"],
    });
  });

  test("the catalogue of native names has the same models with other names", () => {
    const [neutral, native] = [readCatalogue(), readCatalogue("native")];
    expect(native.providers.map(({ id }) => id)).toEqual([
      "openai",
      "anthropic",
      "google",
      "mistral",
    ]);
    const upstream = (catalogue: Catalogue) =>
      catalogue.providers.flatMap(({ models }) =>
        models.map(({ name: _name, displayName: _displayName, ...model }) => model),
      );
    expect(upstream(native)).toEqual(upstream(neutral));
  });

  test("metrics name the vendor of a provider if the semantic conventions have a name for it", () => {
    const vendors = (path?: string) => readCatalogue(path).providers.map(({ vendor }) => vendor);
    expect(vendors()).toEqual(["openai", "anthropic", "gcp.gemini", "mistral_ai"]);
    expect(vendors("native")).toEqual(vendors());
    const azure = { ...fifth, id: "azure", dialect: "openai", vendor: "azure.ai.openai" };
    expect(vendors(file({ providers: [fifth, azure] }))).toEqual(["elsewhere", "azure.ai.openai"]);
  });

  test("providers and models are found only by public name", () => {
    const catalogue = readCatalogue();
    const find = (provider: string, model?: string) => findTarget(catalogue, { provider, model });
    expect(find("provider-b").model?.name).toBe("model-b-1");
    expect(find("provider-b", "model-b-2").model?.upstream).toBe("claude-opus-5-5");
    expect(find("provider-b", "claude-opus-5-5").model).toBeUndefined();
    for (const id of ["openai", "__proto__", "constructor", ""])
      expect(find(id).entry).toBeUndefined();
  });

  test("a fifth provider of a known dialect needs no code", async () => {
    const simulator = await forTest(startProviderSimulator({ dialect: "openai-compatible" }));
    const catalogue = readCatalogue(file({ providers: [fifth] }));
    const environment = { ELSEWHERE_TOKEN: "simulated-key", ELSEWHERE: `${simulator.url}/v1` };
    const providers = await forTest(openProviders(catalogue, variablesIn(environment)));
    const [entry] = catalogue.providers;
    const provider = providers.byId.get(fifth.id);
    if (!entry || !provider) throw new Error("The fifth provider isn't open.");
    const prompt = { ...promptFor(entry, "case: plain"), isStream: false };
    expect(await readReply(provider, prompt)).toMatchObject({ text: REPLY });
  });

  test("a variable with a secret of the product cannot hold a key", () => {
    const secrets = {
      SECRET_KEY: Buffer.alloc(32).toString("base64"),
      INTERNAL_SECRET: "x".repeat(32),
    };
    const variables = variablesIn({
      ...secrets,
      DATABASE_URL: "postgres://elsewhere/gatehouse",
      ELSEWHERE: "here",
    });
    expect(variables).toEqual({ ELSEWHERE: "here" });
  });

  const refuses = (content: unknown, ...problems: string[]) => {
    for (const problem of problems) expect(() => readCatalogue(file(content))).toThrow(problem);
  };

  test("an invalid file is rejected with a list of all its errors", () => {
    const models = [{ name: "big", upstream: "", outputTokens: 0, colour: "red" }];
    const providers = [
      { ...fifth, dialect: "klingon", baseUrl: "ftp://elsewhere", models: [] },
      { ...fifth, keyVariable: "not a name", models },
      { ...fifth, models: [fifth.models[0], fifth.models[0]] },
    ];
    const ofSecond = ["1.keyVariable", "1.models.0.upstream", "1.models.0.outputTokens", "colour"];
    refuses({ providers }, "0.dialect", "0.baseUrl", "0.models", ...ofSecond, "2.models.1.name");
    refuses({ providers: [fifth, fifth] }, "listed twice");
    refuses("{", "cannot be read");
    expect(() => readCatalogue("/nowhere.json")).toThrow("cannot be read");
  });

  test("aliases have unique names, and list known models once, at least one with a weight", () => {
    const big = { provider: "elsewhere", model: "big" };
    const withAliases = (...aliases: object[]) => ({ providers: [fifth], aliases });
    const { aliases } = readCatalogue(file(withAliases({ name: "assistant", targets: [big] })));
    expect(aliases).toEqual([{ name: "assistant", targets: [{ ...big, weight: 1 }] }]);
    for (const name of ["big", "elsewhere/big"])
      refuses(withAliases({ name, targets: [big] }), `aliases.0.name: "${name}" is a model`);
    const one = { name: "assistant", targets: [big] };
    refuses(withAliases(one, one), 'aliases.1.name: "assistant" is listed twice');
    refuses(
      withAliases({ name: "a", targets: [big, { ...big, model: "small" }, big] }),
      'aliases.0.targets.1: there is no model "elsewhere/small"',
      'aliases.0.targets.2: "elsewhere/big" is listed twice',
    );
    refuses(withAliases({ name: "a", targets: [] }), "aliases.0.targets");
    for (const weight of [-1, 0.5, 1_001])
      refuses(
        withAliases({ name: "a", targets: [{ ...big, weight }] }),
        "aliases.0.targets.0.weight",
      );
    refuses(
      withAliases({ name: "a", targets: [{ ...big, weight: 0 }] }),
      "aliases.0.targets: must have a target with a weight above 0",
    );
  });

  test("embedding models have OpenAI's dialects, no output and no alias", () => {
    const small = { name: "small", upstream: "text-embedding-3-small", kind: "embedding" };
    const withModel = (model: object, more: object = {}) => ({
      providers: [{ ...fifth, models: [...fifth.models, model], ...more }],
    });
    const [provider] = readCatalogue(file(withModel(small))).providers;
    expect(provider?.models[1]).toMatchObject({ ...small, outputTokens: 0 });
    refuses(
      withModel({ ...small, outputTokens: 100 }),
      "models.1.outputTokens: is not allowed for embedding models",
    );
    refuses(withModel({ ...small, kind: "chat" }), "models.1.outputTokens: is required");
    refuses(withModel({ ...small, kind: "image" }), "models.1.kind");
    for (const dialect of ["anthropic", "google"])
      refuses(
        withModel(small, { dialect }),
        `models.1.kind: "embedding" is not supported by the dialect ${dialect}`,
      );
    const aliases = [{ name: "a", targets: [{ provider: "elsewhere", model: "small" }] }];
    refuses(
      { ...withModel(small), aliases },
      'aliases.0.targets.0: "elsewhere/small" is an embedding model',
    );
  });

  test.each(["?api-version=1", "#top", " ", "http://ann:secret@127.0.0.1:9/v1", "http://"])(
    "the base URL %j is rejected, in the file and in a variable",
    (wrong) => {
      const address = wrong.startsWith("http") ? wrong : `http://127.0.0.1:9/v1${wrong}`;
      refuses(
        { providers: [{ ...fifth, baseUrl: address }] },
        "providers.0.baseUrl: must be a URL",
      );
      const open = () => openProviders(readCatalogue(), { MISTRAL_BASE_URL: address });
      expect(open).toThrow(/^(?!.*secret).*MISTRAL_BASE_URL must be a URL/s);
    },
  );

  test.each(["", " ", "a\u0000", "a\nb", " a", "a\ud800"])("the name %j is rejected", (name) => {
    const providers = [{ ...fifth, id: name, models: [{ name, upstream: name, outputTokens: 1 }] }];
    const places = ["id", "models.0.name", "models.0.upstream"];
    refuses({ providers }, ...places.map((at) => `providers.0.${at}: must be words`));
  });

  const priced = (price: unknown) => ({
    providers: [{ ...fifth, models: [{ ...fifth.models[0], price }] }],
  });
  const tier = { inputTokens: 200_000, input: 2, output: 2 };

  test.each([
    [{ output: 1 }, "input: must be a number: the price of a million tokens"],
    [{ input: "1", output: 1 }, "input: must be a number: the price of a million tokens"],
    [{ input: -1, output: 1 }, "input: must not be negative"],
    [{ input: 1, output: 1_000_001 }, "output: must be at most 1,000,000"],
    [{ input: 0.0000000001, output: 1 }, "input: must have at most nine decimal places"],
    [{ input: 1, output: 1, cachedInput: null }, "cachedInput: must be a number"],
    [{ input: 1, output: 1, cached: 1 }, 'Unrecognized key: "cached"'],
    [{ input: 1, output: 1, above: [] }, "above: must have a tier, or be left out"],
    [{ input: 1, output: 1, above: Array(9).fill(tier) }, "above: must have at most 8 tiers"],
    [
      { input: 1, output: 1, above: [{ ...tier, inputTokens: 0 }] },
      "above.0.inputTokens: must be a positive number of tokens",
    ],
    [
      { input: 1, output: 1, above: [{ ...tier, inputTokens: 1.5 }] },
      "above.0.inputTokens: must be a whole number of tokens",
    ],
    [
      { input: 1, output: 1, above: [{ inputTokens: 1, input: 1 }] },
      "above.0.output: must be a number: the price of a million tokens",
    ],
    [{ input: 1, output: 1, source: "http://x.test" }, "source: must be a URL with https"],
    [{ input: 1, output: 1, checkedOn: "today" }, "checkedOn: must be a date, such as 2026-11-28"],
    [
      { input: 1, output: 1, above: [tier, tier] },
      "above.1.inputTokens: must be larger than that of the tier before",
    ],
  ])("the price %j is rejected", (price, problem) => {
    refuses(priced(price), "AI_CATALOG", problem);
  });

  test.each([
    [{ currency: "usd" }, "currency: must be the three letters of a currency, such as USD"],
    [{ currency: "$" }, "currency: must be the three letters of a currency, such as USD"],
    [{ pricesAsOf: "yesterday" }, "pricesAsOf: must be a date, such as 2026-11-28"],
  ])("%j is rejected", (wrong, problem) => {
    refuses({ providers: [fifth], ...wrong }, problem);
  });

  test("prices are in US dollars unless the file names a currency, and absent if unknown", () => {
    const read = (more: object) => readCatalogue(file({ providers: [fifth], ...more }));
    expect(read({}).currency).toBe("USD");
    expect(read({}).providers[0]?.models[0]).not.toHaveProperty("price");
    expect(read({ currency: "EUR", pricesAsOf: "2026-11-28" })).toMatchObject({
      currency: "EUR",
      pricesAsOf: "2026-11-28",
    });
  });

  test("the file may have a byte order mark, and must be UTF-8", () => {
    const text = JSON.stringify({ providers: [{ ...fifth, id: "café" }] });
    expect(names(readCatalogue(file(Buffer.from(`\ufeff${text}`))))).toEqual({ café: ["big"] });
    refuses(Buffer.from(text, "latin1"), "cannot be read");
  });

  test.each(["one,,two", "one,", ",", "one,tw o", "one\ttwo"])(
    "comma-separated keys are rejected if one is empty or contains a space: %j",
    (keys) => {
      const open = () => openProviders(readCatalogue(), { OPENAI_API_KEY: keys });
      expect(open).toThrow(/^(?!.*(one|two)).*OPENAI_API_KEY must be keys/s);
    },
  );

  test("invalid values of named variables are rejected and never shown", () => {
    const variables = { OPENAI_API_KEY: "two words", GEMINI_BASE_URL: "file:///etc/passwd" };
    const open = () => openProviders(readCatalogue(), variables);
    expect(open).toThrow(/^(?!.*(two words|passwd)).*OPENAI_API_KEY.*GEMINI_BASE_URL/s);
  });
});
