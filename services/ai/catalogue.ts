import { readFileSync } from "node:fs";
import { z } from "zod";
import {
  accessOf,
  cloudFaults,
  cloudShape,
  cloudVendor,
  hasEmbeddings,
} from "./catalogue-clouds.ts";
import { priceSchema } from "./price.ts";

/** Display name: printable words separated by single spaces. */
const label = (most: number) =>
  z
    .string()
    .max(most)
    .regex(
      /^[^\p{C}\s]+( [^\p{C}\s]+)*$/u,
      "must be words of printable characters, separated by single spaces",
    );

/**
 * Rule for the base URL of a provider. Paths are appended to it, and it carries no credentials but
 * the key.
 */
export const BASE_URL = "must be a URL with http or https, without user, spaces, ? and #";
export const isBaseUrl = (text: string) =>
  /^https?:\/\/[^\s?#@]+$/i.test(text) && URL.canParse(text);

/** Differences between models are data. Omitted fields have the defaults of the dialect. */
const modelShape = z.strictObject({
  /** Public name, in requests and responses. */
  name: label(128),
  /** What the model is for, by default conversations. Embeddings are in OpenAI's dialects only. */
  kind: z.enum(["chat", "embedding"]).exactOptional(),
  /** Display name, by default the public name. */
  displayName: label(128).exactOptional(),
  /** Name at the provider. */
  upstream: label(200),
  /**
   * Maximum number of output tokens. Larger requests are lowered to it. Anthropic requires a
   * maximum in every request: this is the default. Embedding models have none.
   */
  outputTokens: z.int().positive().exactOptional(),
  /**
   * Maximum temperature, to which higher ones are lowered, or "refused" if the model rejects any
   * temperature.
   */
  temperature: z.union([z.number().positive().max(2), z.literal("refused")]).exactOptional(),
  /**
   * OpenAI's dialects: role of the system text. The other dialects have a field for it. "user", in
   * any dialect, is for models without either: the text is prepended as a turn of the user.
   */
  systemRole: z.enum(["system", "developer", "user"]).exactOptional(),
  /** OpenAI's dialects: the field that limits the reply. */
  outputTokensField: z.enum(["max_tokens", "max_completion_tokens"]).exactOptional(),
  /** OpenAI's dialects: reasoning effort. Some models accept a temperature only with "none". */
  reasoningEffort: z
    .enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
    .exactOptional(),
  /**
   * OpenAI's dialects: whether to request usage in streams. Some servers always report it and
   * reject the field.
   */
  usageOnRequest: z.boolean().exactOptional(),
  /** OpenAI's dialects: the field of the seed. */
  seedField: z.enum(["seed", "random_seed"]).exactOptional(),
  /** What messages of the user may contain. */
  input: z
    .array(z.enum(["text", "image"]))
    .refine((kinds) => kinds.includes("text"), 'must contain "text"')
    .exactOptional(),
  /** Whether the model can call tools. */
  tools: z.boolean().exactOptional(),
  /** Whether the model can reply in the form of a JSON Schema. */
  schema: z.boolean().exactOptional(),
  /** Whether requests may set the reasoning effort. */
  reasoning: z.boolean().exactOptional(),
  /** Price per million tokens, in the currency of the catalogue. Absent if it is unknown. */
  price: priceSchema.exactOptional(),
  /**
   * Maximum number of input tokens that the provider adds to a request, such as for tools. Used for
   * budgets.
   */
  overheadTokens: z.int().nonnegative().exactOptional(),
  /** Maximum number of input tokens of an image. Used for budgets. */
  imageTokens: z.int().nonnegative().exactOptional(),
  /** Maximum number of input tokens of a file in a relay, such as a PDF. Used for budgets. */
  fileTokens: z.int().nonnegative().exactOptional(),
});

type Model = z.infer<typeof modelShape>;

/** A model has a maximum of output tokens unless it has no output. */
const modelSchema = modelShape.superRefine(({ kind, outputTokens }, { addIssue }) => {
  const hasOutput = kind !== "embedding";
  if (hasOutput === (outputTokens !== undefined)) return;
  const message = hasOutput ? "is required" : "is not allowed for embedding models";
  addIssue({ code: "custom", path: ["outputTokens"], message });
});

const USUAL = {
  temperature: 2,
  systemRole: "system",
  outputTokensField: "max_tokens",
  usageOnRequest: true,
  seedField: "seed",
  input: ["text", "image"],
  tools: true,
  schema: true,
  reasoning: true,
  overheadTokens: 2_000,
  imageTokens: 50_000, // of a large image for gpt-4o-mini, which counts more than any other
  fileTokens: 1_050_000, // a page has few bytes and an image: as many as the largest context window holds
} satisfies Partial<Model>;
/**
 * Defaults of the models of each dialect, and the vendor by OpenTelemetry's semantic conventions.
 * The vendor of a compatible provider is its public id.
 */
const DIALECT_DEFAULTS = {
  openai: {
    ...USUAL,
    systemRole: "developer",
    outputTokensField: "max_completion_tokens",
    vendor: "openai",
  },
  anthropic: { ...USUAL, temperature: 1, vendor: "anthropic" },
  google: { ...USUAL, vendor: "gcp.gemini" },
  "openai-compatible": { ...USUAL, input: ["text"], reasoning: false, vendor: undefined },
} satisfies Record<string, Partial<Model> & { vendor: string | undefined }>;

/** A model with the defaults of its dialect. */
type CompleteModel = Model & Required<Pick<Model, "outputTokens" | keyof typeof USUAL>>;

const variableName = z
  .string()
  .regex(/^[A-Z][A-Z0-9_]*$/, "must be the name of an environment variable");

/** Rejects lists in which two items have the same value of a field. */
const unique =
  <K extends string>(field: K) =>
  (items: readonly Record<K, string>[], { addIssue }: z.core.$RefinementCtx): void => {
    const values = items.map((item) => item[field]);
    for (const [index, value] of values.entries()) {
      const isRepeated = values.indexOf(value) < index;
      if (isRepeated)
        addIssue({ code: "custom", path: [index, field], message: `"${value}" is listed twice` });
    }
  };

const providerSchema = z
  .strictObject({
    /** Public id: `provider` in requests and responses. */
    id: label(64),
    /** Display name, by default the id. */
    displayName: label(64).exactOptional(),
    /** Wire format. Each has an adapter. */
    dialect: z.enum(["openai", "anthropic", "google", "openai-compatible"]),
    /** Name in metrics and traces, by the semantic conventions for generative AI. */
    vendor: label(64).exactOptional(),
    ...cloudShape,
    /**
     * Variable with the API key. The provider is configured if it is set. Clouds have a default.
     */
    keyVariable: variableName.exactOptional(),
    /** Variable with the base URL. Clouds have a default. */
    baseUrlVariable: variableName.exactOptional(),
    /**
     * Anthropic's dialect: values of `anthropic-beta` that `POST /v1/messages` passes on. Others
     * may change what a call costs or where its data goes.
     */
    betas: z
      .array(z.string().regex(/^[\w.-]+$/, "must be a value of the header anthropic-beta"))
      .exactOptional(),
    /** Base URL if its variable is not set. Only clouds may lack it. */
    baseUrl: z.string().refine(isBaseUrl, BASE_URL).exactOptional(),
    /** The first one is the default. */
    models: z.tuple([modelSchema], modelSchema).superRefine(unique("name")),
  })
  .superRefine((entry, { addIssue }) => {
    for (const fault of cloudFaults(entry)) addIssue({ code: "custom", ...fault });
    const { dialect, endpoint, models } = entry;
    for (const [index, model] of models.entries())
      if (isEmbedding(model) && !hasEmbeddings(entry)) {
        const message = `"embedding" is not supported by ${endpoint ?? `the dialect ${dialect}`}`;
        addIssue({ code: "custom", path: ["models", index, "kind"], message });
      }
  })
  .transform(({ models: [first, ...others], ...provider }) => {
    const { vendor, ...defaults } = DIALECT_DEFAULTS[provider.dialect];
    const complete = (model: Model): CompleteModel => ({ outputTokens: 0, ...defaults, ...model });
    const models = [complete(first), ...others.map(complete)] as const;
    const named = cloudVendor(provider.endpoint) ?? vendor ?? provider.id;
    return { vendor: named, ...provider, ...accessOf(provider), models };
  });

/** Whether a model creates embeddings, and is not for conversations. */
export const isEmbedding = ({ kind }: Pick<Model, "kind">): boolean => kind === "embedding";

const MAX_TARGETS = 16;
const MAX_WEIGHT = 1_000;

/** A name for several models of the same use. */
const aliasSchema = z.strictObject({
  /** Public name, in requests. Responses have that of the model. */
  name: label(128),
  /**
   * The models. A call goes to one of them by weight, and continues in this order after failures.
   */
  targets: z
    .array(
      z.strictObject({
        /** Public id of the provider. */
        provider: label(64),
        /** Public name of the model. */
        model: label(128),
        /** Share of the calls. 0 is for calls that have failed elsewhere. */
        weight: z.int().min(0).max(MAX_WEIGHT).default(1),
      }),
    )
    .min(1)
    .max(MAX_TARGETS)
    .refine((targets) => targets.some(({ weight }) => weight > 0), {
      message: "must have a target with a weight above 0",
    }),
});

const catalogueShape = z.strictObject({
  /** Date on which the models were last checked against the lists of the providers. */
  checkedOn: z.iso.date().exactOptional(),
  /** Currency of all prices: its code by ISO 4217. */
  currency: z
    .string()
    .regex(/^[A-Z]{3}$/, "must be the three letters of a currency, such as USD")
    .default("USD"),
  /** Date on which the prices were last checked. */
  pricesAsOf: z.iso.date("must be a date, such as 2026-11-28").exactOptional(),
  providers: z.array(providerSchema).min(1).superRefine(unique("id")),
  aliases: z.array(aliasSchema).superRefine(unique("name")).default([]),
});

/**
 * Aliases have unique names, and list models of the catalogue, each once. Vectors of different
 * models can't be compared, so embedding models have no alias.
 */
const catalogueSchema = catalogueShape.superRefine(({ providers, aliases }, { addIssue }) => {
  const longNames = providers.flatMap(({ id, models }) =>
    models.map(({ name }) => longNameOf(id, name)),
  );
  const embeddings = providers.flatMap(({ id, models }) =>
    models.filter(isEmbedding).map(({ name }) => longNameOf(id, name)),
  );
  const names = new Set([...longNames, ...providers.flatMap((each) => each.models.map(nameOf))]);
  for (const [index, { name, targets }] of aliases.entries()) {
    const at = ["aliases", index];
    if (names.has(name))
      addIssue({ code: "custom", path: [...at, "name"], message: `"${name}" is a model` });
    const targetNames = targets.map(({ provider, model }) => longNameOf(provider, model));
    for (const [place, target] of targetNames.entries()) {
      const path = [...at, "targets", place];
      if (!longNames.includes(target))
        addIssue({ code: "custom", path, message: `there is no model "${target}"` });
      if (embeddings.includes(target))
        addIssue({ code: "custom", path, message: `"${target}" is an embedding model` });
      if (targetNames.indexOf(target) < place)
        addIssue({ code: "custom", path, message: `"${target}" is listed twice` });
    }
  }
});

const nameOf = ({ name }: { name: string }) => name;
/** The name of a model that always works in requests. */
export const longNameOf = (provider: string, model: string) => `${provider}/${model}`;

/** All providers, configured or not, in the order in which they are listed. */
export type Catalogue = Readonly<z.output<typeof catalogueSchema>>;
export type CatalogueProvider = Catalogue["providers"][number];
export type CatalogueModel = CatalogueProvider["models"][number];
export type CatalogueAlias = Catalogue["aliases"][number];

/**
 * Reads a catalogue file.
 * @param path `neutral` or `native` for a shipped catalogue, otherwise the path of a file
 * @throws Error whose message lists everything that is wrong with the file
 */
export function readCatalogue(path = "neutral"): Catalogue {
  const shipped = path === "neutral" || path === "native";
  const file = shipped ? new URL(`./catalogue/${path}.json`, import.meta.url) : path;
  let content: unknown;
  try {
    content = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(file)));
  } catch (cause) {
    const message = `AI_CATALOG: the catalogue of AI providers "${path}" cannot be read: ${(cause as Error).message}`;
    throw new Error(message, { cause });
  }
  const outcome = catalogueSchema.safeParse(content);
  if (outcome.success) return outcome.data;
  const faults = outcome.error.issues.map(
    ({ path: at, message }) => `  ${at.join(".") || "file"}: ${message}`,
  );
  throw new Error(
    `AI_CATALOG: the catalogue of AI providers "${path}" cannot be used:\n${faults.join("\n")}`,
  );
}
