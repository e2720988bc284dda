import { anthropicFormat } from "../../../gateway/formats/messages-format.ts";
import type { HttpBinding } from "../../../gateway/transcode/binding.ts";
import { errorResponse, httpError } from "../../../gateway/transcode/errors.ts";
import {
  ProviderFailure,
  ProviderFailureSchema,
  Reason,
  ReasonSchema,
} from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { ErrorDetails, Violation } from "../../../services/platform/rpc/errors.ts";
import type { Schema } from "./components.ts";
import { commentOn, json, property } from "./components.ts";

/**
 * Documents methods in the format of a foreign API. Their bodies are open objects: the vendor
 * documents them, and its packages have their types.
 */

const OPENAI_ERROR = { $ref: "#/components/schemas/OpenAIError" };
const ANTHROPIC_ERROR = { $ref: "#/components/schemas/AnthropicError" };
const errorRefOf = (format: HttpBinding["format"]) =>
  format === anthropicFormat ? ANTHROPIC_ERROR : OPENAI_ERROR;
/** Distinguishes errors with the same status. */
const codeIn = ({ error }: { error: { code?: string; type: string } }) => error.code ?? error.type;
const nullable = { type: ["string", "null"] };

/** The body of an error in OpenAI's form. */
export const openAiErrorSchema: Schema = {
  type: "object",
  description: "The body of every error under `/v1/`, as OpenAI's clients read it.",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      description: "The error.",
      required: ["message", "type", "param", "code"],
      properties: {
        message: property("message", { type: "string" }, "Human-readable message."),
        type: {
          type: "string",
          enum: [
            "invalid_request_error",
            "rate_limit_exceeded",
            "insufficient_quota",
            "server_error",
          ],
          description: "Kind of error, by its status. `insufficient_quota` is that of a budget.",
          examples: ["invalid_request_error"],
        },
        param: {
          ...nullable,
          description: "The first invalid field.",
          examples: ["messages[0].content"],
        },
        code: { type: "string", description: "The reason.", examples: ["model_not_found"] },
      },
    },
  },
};

/** The body of an error in Anthropic's form. */
export const anthropicErrorSchema: Schema = {
  type: "object",
  description: "The body of every error under `/v1/messages`, as Anthropic's clients read it.",
  required: ["type", "error"],
  properties: {
    type: { type: "string", const: "error", description: "Always `error`.", examples: ["error"] },
    error: {
      type: "object",
      description: "The error.",
      required: ["type", "message"],
      properties: {
        type: {
          type: "string",
          description: "Kind of error, by its status.",
          examples: ["invalid_request_error"],
        },
        message: property("message", { type: "string" }, "Human-readable message."),
      },
    },
  },
};

const open = (description: string): Schema => ({
  type: "object",
  additionalProperties: true,
  description,
});

const MODEL = {
  id: "provider-a/model-a-1",
  object: "model",
  created: 1795564800,
  owned_by: "provider-a",
};
const QUESTION = { role: "user", content: "Hello!" };
const COMPLETION = {
  id: "chatcmpl-0198a2f4-6d4e-7000-8000-000000000000",
  object: "chat.completion",
  created: 1795564800,
  model: "model-a-1",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "Hello.", refusal: null },
      logprobs: null,
      finish_reason: "stop",
    },
  ],
  usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 },
};
const EVENTS = `data: {"id":"${COMPLETION.id}","object":"chat.completion.chunk","created":1795564800,"model":"model-a-1","choices":[{"index":0,"delta":{"content":"Hello."},"logprobs":null,"finish_reason":null}]}\n\ndata: [DONE]\n\n`;

const MESSAGE_REQUEST = { model: "provider-b/model-b-1", max_tokens: 1_024, messages: [QUESTION] };
const MESSAGE = {
  id: "msg_01",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-5-5",
  content: [{ type: "text", text: "Hello." }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 9, output_tokens: 3 },
};
const MESSAGE_EVENT =
  'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello."}}\n\n';
const RESPONSE = {
  id: "resp_01",
  object: "response",
  status: "completed",
  output: [
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello." }] },
  ],
  usage: { input_tokens: 9, output_tokens: 3, total_tokens: 12 },
};
const RESPONSE_EVENT =
  'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"msg_01","output_index":0,"content_index":0,"delta":"Hello.","sequence_number":4}\n\n';

const TEXTS = ["Hello!", "Good evening."];
const EMBEDDING_MODEL = "provider-a/text-embedding-3-small";
const EMBEDDINGS = {
  object: "list",
  data: TEXTS.map((_text, index) => ({ object: "embedding", index, embedding: [0.0123, -0.0456] })),
  model: "text-embedding-3-small",
  usage: { prompt_tokens: 5, total_tokens: 5 },
};

type Documented = {
  /** What the method does, and how it differs from the original. */
  description: string;
  request?: object;
  success: object;
  /** Headers of a successful response. */
  headers: string[];
};

/** The documentation of each method in a foreign format, by its name. */
const METHODS: Readonly<Record<string, Documented>> = {
  Complete: {
    description:
      "Continues a conversation, with any model or alias that `GET /v1/models` lists; `model` in the reply is the model that replies. The request is that of OpenAI's chat completions. Rejected with 400: `n` above 1, `logprobs`, `top_logprobs`, `logit_bias`, " +
      "`audio`, `modalities` other than text, `moderation`, `web_search_options`, `prediction`, `functions`, `function_call`, " +
      "`store: true`, parts other than text and images, tools other than functions, and what the model does not support. Ignored, " +
      "and listed in `X-AI-Ignored`: `user`, `metadata`, `service_tier`, `verbosity`, `safety_identifier`, `prompt_cache_*`, unknown " +
      "fields, and fields that only tune the reply and that the model does not support. `usage` has `cost` if the model has a price: a decimal as a " +
      "string, in the currency of the deployment. A stream that fails has an event with `error` before `[DONE]`, and no " +
      "`finish_reason`.",
    request: json(
      "A request of OpenAI's chat completions.",
      open("See the reference of OpenAI's API."),
      { model: MODEL.id, messages: [QUESTION] },
    ),
    success: {
      description: "The reply, or its events with `stream: true`.",
      content: {
        "application/json": { schema: open("A `chat.completion`."), example: COMPLETION },
        "text/event-stream": { schema: { type: "string" }, example: EVENTS },
      },
    },
    headers: ["X-AI-Provider", "X-AI-Model"],
  },
  CreateEmbeddings: {
    description:
      "Embeds texts with an embedding model of OpenAI's dialects. The request is that of OpenAI's embeddings: `input` is one text, or up " +
      "to 2,048 with at most 4,000,000 characters in total. Rejected with 400: `input` as tokens, models for conversations, and aliases. " +
      "Ignored, and listed in `X-AI-Ignored`: `user` and unknown fields. Numbers and base64 are passed on as the provider sends them, in the " +
      "order of the texts. A reply without all vectors, or with vectors of different lengths or not of the length `dimensions`, is a " +
      "`provider_error`. `usage` has `cost` if the model has a price.",
    request: json("A request of OpenAI's embeddings.", open("See the reference of OpenAI's API."), {
      model: EMBEDDING_MODEL,
      input: TEXTS,
    }),
    success: json("The embeddings.", open("A `list` of `embedding`."), EMBEDDINGS),
    headers: ["X-AI-Provider", "X-AI-Model"],
  },
  RelayMessages: {
    description:
      "Passes a request of Anthropic's Messages API on to a model of that dialect, and its reply back. The body is passed on unchanged, " +
      "except for the name of the model and a `max_tokens` that exceeds the model's; every event is unchanged. Rejected with 400: tools other " +
      "than `custom`, `mcp_servers`, `container`, `fallbacks`, `fallback_credit_token`, `billing_policy`, files of the provider, " +
      "blocks that do not contain their content, and values of `service_tier`, `speed` and `inference_geo` with a different price. " +
      "Values of `anthropic-beta` that the catalogue allows are passed on; others are listed in `X-AI-Ignored`. Without " +
      "`Authorization`, the key may be in `x-api-key`. A stream that fails ends with an event `error`.",
    request: json(
      "A request of Anthropic's Messages API.",
      open("See the reference of Anthropic's API."),
      MESSAGE_REQUEST,
    ),
    success: {
      description: "The reply, or its events with `stream: true`.",
      content: {
        "application/json": { schema: open("A `message`."), example: MESSAGE },
        "text/event-stream": { schema: { type: "string" }, example: MESSAGE_EVENT },
      },
    },
    headers: ["X-AI-Provider", "X-AI-Model"],
  },
  CountMessageTokens: {
    description:
      "Passes a request to count the tokens of a conversation on to a model of Anthropic's dialect. It is free, and counts towards the " +
      "rate limit. It rejects what `POST /v1/messages` rejects. Values of `anthropic-beta` that the catalogue does not allow are listed in " +
      "`X-AI-Ignored`.",
    request: json("A request of Anthropic's API.", open("See the reference of Anthropic's API."), {
      model: MESSAGE_REQUEST.model,
      messages: MESSAGE_REQUEST.messages,
    }),
    success: json("The number of tokens.", open("The count."), { input_tokens: 9 }),
    headers: [],
  },
  RelayResponses: {
    description:
      "Passes a request of OpenAI's Responses API on to a model of that dialect, and its reply back. The body is passed on unchanged, except " +
      "for the name of the model, a `max_output_tokens` that exceeds the model's, and `store`, which is set to false; every event is unchanged. " +
      "Rejected with 400: `store: true`, `previous_response_id`, `conversation`, `background`, `background_options`, `prompt`, " +
      "`access_programs`, tools other than `function` and `custom`, references to items and files of the provider, and a `service_tier` " +
      "with a different price. A stream that fails ends with an event `error`.",
    request: json(
      "A request of OpenAI's Responses API.",
      open("See the reference of OpenAI's API."),
      {
        model: MODEL.id,
        input: QUESTION.content,
      },
    ),
    success: {
      description: "The reply, or its events with `stream: true`.",
      content: {
        "application/json": { schema: open("A `response`."), example: RESPONSE },
        "text/event-stream": { schema: { type: "string" }, example: RESPONSE_EVENT },
      },
    },
    headers: ["X-AI-Provider", "X-AI-Model"],
  },
  ListModels: {
    description:
      "Lists the models of configured providers that the caller may use, including embedding models, and aliases. The response is that of OpenAI's API. " +
      "`owned_by` is the id of the provider, or `gatehouse` for an alias.",
    success: json("The models.", open("A list of `model`."), { object: "list", data: [MODEL] }),
    headers: [],
  },
  GetModel: {
    description:
      "Returns one of the models that `GET /v1/models` lists. In a name such as `provider/model`, encode the slash as `%2F`.",
    success: json("The model.", open("A `model`."), MODEL),
    headers: [],
  },
};

/**
 * How a method in a foreign format is documented.
 * @throws Error for a method that has no description here
 */
export function formattedMethod({ method }: HttpBinding): Documented {
  const documented = METHODS[method.name];
  if (!documented) throw new Error(`${method.name} has no description in openapi/formats.ts`);
  return documented;
}

/** The errors of a method in a foreign format, by status. */
export function formattedFailures(binding: HttpBinding, reasons: readonly Reason[]) {
  const { format } = binding;
  const failures = reasons.flatMap((reason) => {
    if (reason === Reason.PROVIDER_ERROR)
      return PROVIDER_FAILURES.map((providerFailure) =>
        errorOf(format, reason, { providerFailure }),
      );
    if (reason === Reason.VALIDATION_FAILED)
      return sampleViolations(binding).map((each) =>
        errorOf(format, reason, { violations: [each] }),
      );
    return [errorOf(format, reason)];
  });
  const byStatus = Object.groupBy(failures, ({ status }) => status);
  return Object.entries(byStatus).map(([status, group = []]) => {
    const bodies = group.map(({ body }) => body as Parameters<typeof codeIn>[0]);
    const codes = [...new Set(bodies.map((body) => `\`${codeIn(body)}\``))];
    return [status, json(`${codes.join(", ")}.`, errorRefOf(format), bodies[0])] as const;
  });
}

const PROVIDER_FAILURES = ProviderFailureSchema.values
  .map((value) => value.number as ProviderFailure)
  .filter((value) => value !== ProviderFailure.UNSPECIFIED);

const INVALID: Violation = { field: "model", message: "must be at most 193 characters" };
const UNSUPPORTED: Violation = { field: "store", message: "is not supported", unsupported: true };

/**
 * A violation of each kind that a method can report. Only Complete refuses fields whatever their
 * value.
 */
function sampleViolations({ method, bodyFields }: HttpBinding): Violation[] {
  if (!bodyFields) return [INVALID];
  return method.name === "Complete"
    ? [INVALID, UNSUPPORTED, { ...UNSUPPORTED, field: "audio" }]
    : [INVALID, UNSUPPORTED];
}

function errorOf(format: HttpBinding["format"], reason: Reason, details: ErrorDetails = {}) {
  const { providerFailure = ProviderFailure.UNSPECIFIED } = details;
  const value =
    providerFailure === ProviderFailure.UNSPECIFIED
      ? ReasonSchema.value[reason]
      : ProviderFailureSchema.value[providerFailure];
  const message = value ? commentOn(value) : "";
  return errorResponse(httpError(reason, message, details), format, true);
}

/** The response of any status that a method in a foreign format does not list. */
export const anyOtherFormatted = (format: HttpBinding["format"]) =>
  json("Any other error.", errorRefOf(format), errorOf(format, Reason.UNSPECIFIED).body);
