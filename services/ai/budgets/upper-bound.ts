import type { BudgetUnit } from "../../store/budgets.ts";
import type { CatalogueModel } from "../catalogue.ts";
import { imagesIn } from "../estimate.ts";
import { highestCost } from "../price.ts";
import type {
  AnyPrompt,
  EmbeddingPrompt,
  Prompt,
  PromptMessage,
  PromptTool,
  RelayPrompt,
} from "../providers/provider.ts";

/**
 * Tokens of a message, or of a text to embed, in addition to its text: its role and its borders.
 */
const TOKENS_PER_MESSAGE = 16;
/**
 * Maximum number of attempts that are repeated although the provider may have read, and may charge
 * for, their input.
 */
export const REREADS = 1;
/** Maximum number of attempts whose input is paid for. */
const PAID_ATTEMPTS = REREADS + 1;

/**
 * Maximum number of tokens that the provider can count as the input of a prompt, all attempts
 * together. A token has at least one byte.
 */
export function mostInputTokens(prompt: AnyPrompt): number {
  if ("inputs" in prompt) return mostOfInputs(prompt);
  return "relay" in prompt ? mostOfRelay(prompt) : mostOfPrompt(prompt);
}

function mostOfInputs({ model, inputs }: EmbeddingPrompt): number {
  const bytes = inputs.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return PAID_ATTEMPTS * (bytes + inputs.length * TOKENS_PER_MESSAGE + model.overheadTokens);
}

/** The bytes of a body are those of all its texts, and more. Those of files may be compressed. */
const mostOfRelay = ({ model, relay: { bytes, images, files } }: RelayPrompt): number =>
  PAID_ATTEMPTS *
  (bytes + images * model.imageTokens + files * model.fileTokens + model.overheadTokens);

function mostOfPrompt({ messages, systemPrompt, tools = [], format, model }: Prompt): number {
  const schema = format?.type === "json_schema" ? format : undefined;
  const texts = [
    systemPrompt,
    ...messages.flatMap(textsOfMessage),
    ...tools.flatMap(textsOfTool),
    ...(schema ? [schema.name, schema.description, JSON.stringify(schema.schema)] : []),
  ];
  const bytes = texts.reduce((sum, text = "") => sum + Buffer.byteLength(text), 0);
  const other = messages.length * TOKENS_PER_MESSAGE + imagesIn({ messages }) * model.imageTokens;
  return PAID_ATTEMPTS * (bytes + other + model.overheadTokens);
}

const textsOfMessage = ({ parts, toolCalls = [], resultOf }: PromptMessage) => [
  ...parts.map((part) => ("text" in part ? part.text : part.image.url)),
  ...toolCalls.flatMap(({ id, name, arguments: json, signature }) => [id, name, json, signature]),
  ...(resultOf ? [resultOf.id, resultOf.name] : []),
];

const textsOfTool = ({ name, description, parameters }: PromptTool) => [
  name,
  description,
  JSON.stringify(parameters),
];

/**
 * The maximum number of output tokens of a call, and the number below which the call is refused.
 */
export function outputBounds({ maxTokens, model }: Pick<Prompt, "maxTokens" | "model">) {
  const wanted = Math.min(maxTokens ?? model.outputTokens, model.outputTokens);
  return {
    wanted,
    least: maxTokens === undefined ? Math.min(LEAST_OUTPUT_TOKENS, wanted) : wanted,
  };
}

/** What every call needs of a budget at least, whatever its model: input that is not empty. */
export function leastNeedsOf(
  models: readonly Pick<CatalogueModel, "overheadTokens" | "price">[],
): Record<BudgetUnit, bigint> {
  const needs = models.map(({ overheadTokens, price }) => {
    const tokens = PAID_ATTEMPTS * (1 + overheadTokens);
    return { tokens, cost: price ? highestCost(price, tokens).input : undefined };
  });
  const costs = needs.map(({ cost }) => cost).filter((cost) => cost !== undefined);
  return {
    tokens: BigInt(Math.min(...needs.map(({ tokens }) => tokens))),
    cost: costs.toSorted((a, b) => Number(a - b))[0] ?? 0n,
  };
}

/** A shorter reply is of no use to a caller who has set no maximum. */
const LEAST_OUTPUT_TOKENS = 256;
