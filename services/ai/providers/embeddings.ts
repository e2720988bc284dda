import { partsIn } from "../../platform/rpc/check-json.ts";
import type { ApiPath } from "./endpoint-path.ts";
import { classifyError, ProviderError } from "./errors.ts";
import type { EmbeddingPrompt, ReplyEvent, Usage, Vector } from "./provider.ts";

/** Path of embeddings in OpenAI's dialects. */
export const EMBEDDINGS_PATH: ApiPath = {
  version: "v1",
  isVersionInBase: true,
  resource: "embeddings",
};

/**
 * Maximum number of objects, lists and strings in a reply, each of which takes up to 60 bytes. A
 * vector has about seven.
 */
const MAX_PARTS = 1_000_000;
/** Size of a number of a vector in base64, in bytes. */
const FLOAT_BYTES = 4;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const NO_DETAILS = {
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  reasoningTokens: 0,
};

/** The body of a request. A field that the caller has not set is left to the provider. */
export const embeddingsBody = ({ model, inputs, dimensions, encodingFormat }: EmbeddingPrompt) => ({
  model: model.upstream,
  input: inputs,
  dimensions,
  encoding_format: encodingFormat,
});

/**
 * Reads the embeddings of all inputs. Wrong vectors look like right ones, so any doubt is a
 * failure: there must be one for each input, with the requested length and the same length as all
 * others.
 * @throws ProviderError
 */
export function* embeddingsIn(
  received: Buffer,
  prompt: EmbeddingPrompt,
): Generator<ReplyEvent, void> {
  const startedAt = performance.now();
  const { data, usage: counts } = documentIn(received);
  const usage = usageIn(counts);
  if (usage) yield { kind: "usage", usage, details: NO_DETAILS };
  const vectors = vectorsIn(data, prompt);
  const decodingMs = performance.now() - startedAt;
  yield { kind: "embeddings", vectors, decodingMs };
  yield { kind: "finished", reason: "stop", decodingMs };
}

function documentIn(received: Buffer): { data?: unknown; usage?: unknown } {
  let document: { data?: unknown; usage?: unknown; error?: unknown } | null;
  const text = received.toString();
  if (partsIn(text) > MAX_PARTS) throw unreadable("too many objects, lists or strings");
  try {
    document = JSON.parse(text);
  } catch {
    throw unreadable("no JSON");
  }
  if (document?.error) throw new ProviderError(classifyError(document.error));
  return document ?? {};
}

const unreadable = (detail: string) => new ProviderError("unreadable reply", { detail });

/** The tokens of all inputs. Undefined unless the provider has reported a plausible number. */
function usageIn(counts: unknown): Usage | undefined {
  const { prompt_tokens, total_tokens } = (counts ?? {}) as Record<string, unknown>;
  const reported = [prompt_tokens, total_tokens].filter(isCount);
  return reported.length > 0 ? { inputTokens: Math.max(...reported), outputTokens: 0 } : undefined;
}

/** Larger numbers are not counts, and would not fit the usage. */
const MAX_COUNT = 2 ** 31 - 1;
const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) > 0 && Number(value) <= MAX_COUNT;

function vectorsIn(data: unknown, { inputs, dimensions, encodingFormat }: EmbeddingPrompt) {
  if (!Array.isArray(data) || data.length !== inputs.length)
    throw unreadable("another number of embeddings than of inputs");
  const vectors = new Map<number, Vector>();
  let length = dimensions;
  for (const [position, item] of data.entries()) {
    const { index: given, embedding } = (item ?? {}) as { index?: unknown; embedding?: unknown };
    const index = given ?? position; // as clients read the list of a server that sends none
    if (!isIndex(index, inputs.length) || vectors.has(index))
      throw unreadable("an embedding without an index of its own");
    const vector = vectorOf(embedding, encodingFormat);
    length ??= lengthOf(vector);
    if (lengthOf(vector) !== length) throw unreadable("an embedding of another length");
    vectors.set(index, vector);
  }
  return inputs.map((_input, index) => vectors.get(index) as Vector);
}

const isIndex = (value: unknown, count: number): value is number =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) < count;

/**
 * Some providers send numbers whatever is requested. Clients that have requested base64 accept
 * nothing else.
 */
function vectorOf(value: unknown, encodingFormat: EmbeddingPrompt["encodingFormat"]): Vector {
  const isBase64 = encodingFormat === "base64";
  if (isBase64 && typeof value === "string" && isEncoded(value)) return { base64: value };
  if (!Array.isArray(value) || value.length === 0 || !value.every(Number.isFinite))
    throw unreadable("an embedding of another form");
  return isBase64 ? { base64: encoded(value) } : { numbers: value };
}

/**
 * Whether a text is a list of finite numbers. Servers that overflow send NaN, which JSON does not
 * have.
 */
function isEncoded(text: string): boolean {
  const isList = BASE64.test(text) && text.length % 4 === 0 && bytesIn(text) % FLOAT_BYTES === 0;
  if (!isList) return false;
  const bytes = Buffer.from(text, "base64");
  for (let at = 0; at < bytes.length; at += FLOAT_BYTES)
    if (!Number.isFinite(bytes.readFloatLE(at))) return false;
  return true;
}

const bytesIn = (base64: string) => Buffer.byteLength(base64, "base64");

function encoded(numbers: readonly number[]): string {
  const bytes = Buffer.alloc(numbers.length * FLOAT_BYTES);
  for (const [index, number] of numbers.entries()) {
    if (!Number.isFinite(Math.fround(number))) throw unreadable("a number beyond 32-bit floats");
    bytes.writeFloatLE(number, index * FLOAT_BYTES);
  }
  return bytes.toString("base64");
}

const lengthOf = (vector: Vector): number =>
  "base64" in vector ? bytesIn(vector.base64) / FLOAT_BYTES : vector.numbers.length;
