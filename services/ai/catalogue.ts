import { readFileSync } from "node:fs";
import { z } from "zod";

/** Words that can be read, said in a request and kept in the books. */
const label = (most: number) =>
  z
    .string()
    .max(most)
    .regex(
      /^[^\p{C}\s]+( [^\p{C}\s]+)*$/u,
      "must be words that can be read, with single spaces between them",
    );

/**
 * What the address of a provider must be: paths are put after it, and nothing but the key goes
 * there.
 */
export const BASE_URL = "must be a URL with http or https, without user, spaces, ? and #";
export const isBaseUrl = (text: string) =>
  /^https?:\/\/[^\s?#@]+$/i.test(text) && URL.canParse(text);

/**
 * What differs from model to model is data. Left out, a model takes what its dialect's models
 * usually take.
 */
const modelSchema = z.strictObject({
  /** Name that clients use and answers carry. */
  name: label(128),
  /** Name the provider knows it by. */
  upstream: label(200),
  /**
   * The most tokens it writes in one reply; more is lowered to it. Anthropic wants a number always:
   * it gets this one.
   */
  outputTokens: z.int().positive(),
  /**
   * The highest temperature it takes (higher ones are lowered to it), or "refused": none may be
   * sent.
   */
  temperature: z.union([z.number().positive().max(2), z.literal("refused")]).exactOptional(),
  /**
   * Role of system text in OpenAI's shape. Elsewhere it has a field of its own. "user" is for a model
   * without either, in every dialect: the text begins the first turn of the user.
   */
  systemRole: z.enum(["system", "developer", "user"]).exactOptional(),
  /** OpenAI's shape: the field that limits the reply. */
  outputTokensField: z.enum(["max_tokens", "max_completion_tokens"]).exactOptional(),
  /**
   * OpenAI's shape: how much a model reasons. Some take a temperature only with "none".
   */
  reasoningEffort: z
    .enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
    .exactOptional(),
  /**
   * OpenAI's shape: whether a stream reports usage on request. Some servers always report it and
   * reject the request.
   */
  usageOnRequest: z.boolean().exactOptional(),
});

const USUAL = {
  temperature: 2,
  systemRole: "system",
  outputTokensField: "max_tokens",
  usageOnRequest: true,
} as const;
/**
 * What a model takes usually, and the vendor by the semantic conventions; a compatible one goes by
 * its public id.
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
  "openai-compatible": { ...USUAL, vendor: undefined },
} as const;

const variableName = z
  .string()
  .regex(/^[A-Z][A-Z0-9_]*$/, "must be the name of an environment variable");

/** Refuses a list in which a value of a field is repeated. */
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
    /** Public id: `provider` in requests and answers. */
    id: label(64),
    /** The wire format; one adapter each. */
    dialect: z.enum(["openai", "anthropic", "google", "openai-compatible"]),
    /** What metrics and traces call it, by the semantic conventions for generative AI. */
    vendor: label(64).exactOptional(),
    /** Variable whose presence activates the provider. */
    keyVariable: variableName,
    baseUrlVariable: variableName,
    /** Where the provider listens when its variable says nothing. */
    baseUrl: z.string().refine(isBaseUrl, BASE_URL),
    /** The first one is the default. */
    models: z.tuple([modelSchema], modelSchema).superRefine(unique("name")),
  })
  .transform(({ models: [first, ...others], ...provider }) => {
    const { vendor, ...defaults } = DIALECT_DEFAULTS[provider.dialect];
    const complete = (model: z.infer<typeof modelSchema>) => ({ ...defaults, ...model });
    const models = [complete(first), ...others.map(complete)] as const;
    return { vendor: vendor ?? provider.id, ...provider, models };
  });

const catalogueSchema = z.strictObject({
  /** The day on which the models were compared with those that the providers offer. */
  checkedOn: z.iso.date().exactOptional(),
  providers: z.array(providerSchema).min(1).superRefine(unique("id")),
});

/** Every provider there is, configured or not, in the order in which it is listed. */
export type Catalogue = Readonly<z.output<typeof catalogueSchema>>;
export type CatalogueProvider = Catalogue["providers"][number];
export type CatalogueModel = CatalogueProvider["models"][number];

/**
 * Reads a catalogue file: one of the two shipped ones, `neutral` (the default) or `native`, or any
 * other by its path.
 * @throws Error one message that lists everything wrong with the file
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
