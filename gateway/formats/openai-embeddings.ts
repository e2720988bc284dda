import type { Message } from "@bufbuild/protobuf";
import {
  type CreateEmbeddingsRequest,
  CreateEmbeddingsRequestSchema,
  type Embedding,
  type EmbeddingsEvent,
  type Started,
  type TokenUsage,
} from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { FormattedReply } from "./format.ts";
import { type Findings, ignoredNames, members, messageFrom } from "./openai-request.ts";
import { repliedBy } from "./replied-by.ts";

/**
 * Reads the body of OpenAI's `POST /v1/embeddings`. Collects the names of unknown fields.
 * @throws ServiceError VALIDATION_FAILED, naming all fields that are rejected or have the wrong
 * type
 */
export function readEmbeddingsRequest(json: object): CreateEmbeddingsRequest {
  const found: Findings = { violations: [], ignored: new Set() };
  const known = ["model", "input", "dimensions", "encoding_format"];
  const given = members(json, known, "", found) ?? {};
  const { model, input, dimensions, encoding_format } = given;
  const request = {
    model: model ?? "",
    input: textsOf(input, found),
    dimensions,
    encodingFormat: encoding_format,
    ignored: ignoredNames(found),
  };
  return messageFrom(CreateEmbeddingsRequestSchema, request, found);
}

const isTokens = (value: unknown) => typeof value === "number";

/**
 * Tokens are rejected: they differ between models, and their cost cannot be bounded by their bytes.
 */
function textsOf(input: unknown, found: Findings): unknown {
  if (input === undefined) return [];
  if (typeof input === "string") return [input];
  const hasTokens =
    Array.isArray(input) && input.some((item) => isTokens(Array.isArray(item) ? item[0] : item));
  if (!hasTokens) return input;
  const message = "is not supported as tokens, which differ between models: send texts";
  found.violations.push({ field: "input", message, unsupported: true });
  return ["_"]; // so that no other violation of the field is reported
}

/** Creates the writer of a `list` of embeddings. */
export function createEmbeddingsReply(): FormattedReply {
  let started: Started | undefined;
  let usage: TokenUsage | undefined;
  let isFinished = false;
  return {
    headers: () => (started ? repliedBy(started) : {}),
    isFinished: () => isFinished,
    event: () => "", // there is no stream of embeddings
    whole() {
      const embeddings: string[] = [];
      return {
        add(message: Message): void {
          const { event } = message as EmbeddingsEvent;
          if (event.case === "started") started = event.value;
          if (event.case === "embedding") embeddings.push(embeddingJson(event.value));
          if (event.case !== "finished") return;
          usage = event.value.usage;
          isFinished = true;
        },
        /** The embeddings as one JSON text. Each was serialized when it arrived. */
        text() {
          const { model } = started ?? {};
          const end = JSON.stringify({ model, usage: usageOf(usage) });
          return `{"object":"list","data":[${embeddings.join(",")}],${end.slice(1)}`;
        },
      };
    },
  };
}

const embeddingJson = ({ index, numbers, base64 }: Embedding): string =>
  JSON.stringify({ object: "embedding", index, embedding: base64 || numbers });

/** OpenAI's `usage` of embeddings. Undefined if the provider has not reported it. */
const usageOf = (usage: TokenUsage | undefined) =>
  usage && {
    prompt_tokens: usage.inputTokens,
    total_tokens: usage.inputTokens,
    cost: usage.cost,
  };
