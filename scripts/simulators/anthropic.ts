import { z } from "zod";
import {
  areAnswered,
  argumentsOf,
  CALLING,
  type ChatRequest,
  type DialectEncoder,
  type ErrorAnswer,
  type ErrorName,
  type Event,
  type Received,
  type TokenDetails,
  type Tokens,
  tokensIn,
} from "./dialect-encoder.ts";

/** Models with a temperature can't think as those without do. */
const MODELS: Record<string, { temperature: boolean }> = {
  "claude-sonnet-5-5": { temperature: false },
  "claude-opus-5-5": { temperature: false },
  "claude-haiku-5-5": { temperature: false },
  "claude-haiku-4-5": { temperature: true },
};
const marked = {
  cache_control: z
    .strictObject({ type: z.literal("ephemeral"), ttl: z.enum(["5m", "1h"]).optional() })
    .nullish(),
};
const text = z.strictObject({
  type: z.literal("text"),
  text: z.string().regex(/\S/),
  citations: z.null().optional(),
  ...marked,
});
const image = z.strictObject({
  type: z.literal("image"),
  ...marked,
  source: z.union([
    z.strictObject({
      type: z.literal("base64"),
      media_type: z.enum(["image/png", "image/jpeg", "image/gif", "image/webp"]),
      data: z.base64(),
    }),
    z.strictObject({ type: z.literal("url"), url: z.string().startsWith("https://") }),
  ]),
});
const id = z.string().regex(/^[A-Za-z0-9_-]+$/);
const toolUse = z.strictObject({
  type: z.literal("tool_use"),
  id,
  name: z.string().min(1),
  input: z.looseObject({}),
  ...marked,
});
/** A tool of the request that is loaded on demand. */
const toolReference = z.strictObject({
  type: z.literal("tool_reference"),
  tool_name: z.string(),
});
const toolResult = z.strictObject({
  type: z.literal("tool_result"),
  tool_use_id: id,
  content: z.union([z.string(), z.array(z.union([text, image, toolReference]))]).optional(),
  is_error: z.boolean().optional(),
  ...marked,
});
/** The signature is checked: thoughts come back as they were, or not at all. */
const thinking = z.strictObject({
  type: z.literal("thinking"),
  thinking: z.string(),
  signature: z.literal("EqQB"),
});
const block = z.union([text, image, toolUse, toolResult, thinking]);
const content = z.union([z.string().min(1), z.array(block)]);
type Content = z.infer<typeof content>;

const blocksOf = (given: Content) =>
  typeof given === "string" ? [{ type: "text" as const, text: given }] : given;
/** The text of a message, results of tools included. */
const textOf = (given: Content) =>
  blocksOf(given)
    .map((part) =>
      part.type === "tool_result" ? resultOf(part) : part.type === "text" ? part.text : "",
    )
    .join("\n");
const resultOf = ({ content: result = "" }: z.infer<typeof toolResult>) =>
  typeof result === "string"
    ? result
    : result.map((part) => (part.type === "text" ? part.text : "")).join("\n");
const idsOf = (given: Content) => ({
  calls: blocksOf(given).flatMap((block) => (block.type === "tool_use" ? [block.id] : [])),
  results: blocksOf(given).flatMap((block) =>
    block.type === "tool_result" ? [block.tool_use_id] : [],
  ),
});
const choice = { disable_parallel_tool_use: z.literal(true).optional() };
const schema = z.looseObject({ type: z.string() });
const bodySchema = z.strictObject({
  model: z.string(),
  messages: z
    .array(z.strictObject({ role: z.enum(["user", "assistant", "system"]), content }))
    .min(1)
    .refine(
      (messages) => areAnswered(messages.map((message) => idsOf(message.content))),
      "Each tool_use block must have a tool_result block in the next message.",
    )
    .refine(
      (messages) => messages[0]?.role === "user",
      "The first message must have the role user.",
    )
    .refine(
      (messages) => messages.findLast(({ role }) => role !== "system")?.role === "user",
      "This model does not support assistant message prefill.",
    ),
  system: z.union([z.string(), z.array(text)]).default(""),
  metadata: z.strictObject({ user_id: z.string().nullish() }).optional(),
  context_management: z.looseObject({}).optional(),
  ...marked,
  max_tokens: z.int().min(1).max(64_000),
  temperature: z.number().min(0).max(1).optional(),
  top_p: z.number().min(0).max(1).optional(),
  stop_sequences: z.array(z.string()).min(1).optional(),
  tools: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[A-Za-z0-9_-]{1,128}$/),
        description: z.string().optional(),
        input_schema: schema,
        strict: z.boolean().optional(),
        type: z.literal("custom").optional(),
        eager_input_streaming: z.boolean().optional(),
        defer_loading: z.boolean().optional(),
        ...marked,
      }),
    )
    .min(1)
    .optional(),
  tool_choice: z
    .union([
      z.strictObject({ type: z.literal("none") }),
      z.strictObject({ type: z.enum(["auto", "any"]), ...choice }),
      z.strictObject({ type: z.literal("tool"), name: z.string(), ...choice }),
    ])
    .optional(),
  thinking: z
    .strictObject({ type: z.enum(["adaptive", "disabled"]), display: z.string().optional() })
    .optional(),
  output_config: z
    .strictObject({
      effort: z.enum(["low", "medium", "high", "xhigh", "max"]).optional(),
      format: z.strictObject({ type: z.literal("json_schema"), schema }).optional(),
    })
    .optional(),
  stream: z.boolean().default(false),
});

export function anthropicEncoder(key: string): DialectEncoder {
  return {
    lineEnd: "\n",
    read: (received) => read(received, key),
    events,
    delta,
    whole: (text, tokens, { model }) =>
      message(model, [{ type: "text", text }], "end_turn", tokens),
    error,
    errorEvent: () => named("error", error("overloaded").body as object),
    closes: ({ event, data }) => event === "message_stop" || /"stop_reason":"/.test(data),
    idle: [
      named("ping", {}),
      named("some_later_invention", { payload: "ignore me" }),
      named("content_block_start", { index: 1, content_block: { type: "thinking", thinking: "" } }),
      named("content_block_delta", {
        index: 1,
        delta: { type: "signature_delta", signature: "EqQB" },
      }),
      named("content_block_delta", {
        index: 1,
        delta: { type: "some_later_delta", text: "ignore me" },
      }),
      named("content_block_stop", { index: 1 }),
      named("content_block_delta", { index: 0, delta: { type: "text_delta", text: "" } }),
    ],
    thinking: named("content_block_delta", {
      index: 0,
      delta: { type: "thinking_delta", thinking: "Let me see." },
    }),
    blocked: {
      events: [stop("refusal", 1), named("message_stop", {})],
      whole: message("simulated", [], "refusal", { input: 1, output: 1 }),
    },
    toolCall: {
      events: [
        named("content_block_start", { index: 1, content_block: TOOL_USE }),
        named("content_block_delta", {
          index: 1,
          delta: { type: "input_json_delta", partial_json: "{}" },
        }),
        named("content_block_stop", { index: 1 }),
        stop("tool_use", 1),
        named("message_stop", {}),
      ],
      whole: message("simulated", [TOOL_USE], "tool_use", { input: 1, output: 1 }),
    },
    calling: { events: callingEvents(), whole: callingWhole() },
  };
}

const callingUsage = {
  input_tokens: CALLING.usage.input - CALLING.usage.cached,
  output_tokens: CALLING.usage.output,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: CALLING.usage.cached,
  output_tokens_details: { thinking_tokens: CALLING.usage.reasoning },
};

/**
 * A thought, a text and two calls: four blocks, of which the calls are the third and the fourth.
 */
function callingEvents(): Event[] {
  const block = (index: number, content_block: object, deltas: object[]) => [
    named("content_block_start", { index, content_block }),
    ...deltas.map((delta) => named("content_block_delta", { index, delta })),
    named("content_block_stop", { index }),
  ];
  const first = message("simulated", [], null, { input: 40, output: 2 });
  return [
    named("message_start", { message: { ...first, usage: { ...callingUsage, output_tokens: 2 } } }),
    ...block(0, { type: "thinking", thinking: "", signature: "" }, [
      ...CALLING.thoughts.map((thinking) => ({ type: "thinking_delta", thinking })),
      { type: "signature_delta", signature: "EqQB" },
    ]),
    ...block(1, { type: "text", text: "" }, [{ type: "text_delta", text: CALLING.text }]),
    ...CALLING.calls.flatMap(({ name, pieces }, index) =>
      block(
        2 + index,
        { type: "tool_use", id: `toolu_0${index}`, name, input: {} },
        pieces.map((partial_json) => ({ type: "input_json_delta", partial_json })),
      ),
    ),
    named("message_delta", {
      delta: { stop_reason: "tool_use", stop_sequence: null },
      usage: callingUsage,
    }),
    named("message_stop", {}),
  ];
}

const callingWhole = () => ({
  ...message(
    "simulated",
    [
      { type: "thinking", thinking: CALLING.thoughts.join(""), signature: "EqQB" },
      { type: "text", text: CALLING.text },
      ...CALLING.calls.map((call, index) => ({
        type: "tool_use",
        id: `toolu_0${index}`,
        name: call.name,
        input: JSON.parse(argumentsOf(call)),
      })),
    ],
    "tool_use",
    CALLING.usage,
  ),
  usage: callingUsage,
});

const TOOL_USE = { type: "tool_use", id: "toolu_1", name: "look_up", input: {} };
const named = (type: string, fields: object): Event => ({
  event: type,
  data: JSON.stringify({ type, ...fields }),
});
const delta = (text: string) =>
  named("content_block_delta", { index: 0, delta: { type: "text_delta", text } });
const stop = (reason: string, output: number, details?: TokenDetails) =>
  named("message_delta", {
    delta: { stop_reason: reason, stop_sequence: null },
    usage: { output_tokens: output, ...thinkingIn(details) },
  });
const thinkingIn = (details: TokenDetails | undefined) =>
  details && { output_tokens_details: { thinking_tokens: details.reasoning } };

function message(
  model: string,
  content: object[],
  stopReason: string | null,
  { input, output, details }: Tokens,
) {
  // A part of the input came from the cache, which is counted separately.
  const { cached, written, writtenForHour } = details ?? {
    cached: Math.floor(input / 2),
    written: 0,
    writtenForHour: 0,
  };
  return {
    id: "msg_simulated",
    type: "message",
    role: "assistant",
    model,
    content,
    stop_reason: stopReason,
    stop_sequence: null,
    usage: {
      input_tokens: input - cached - written,
      output_tokens: output,
      cache_creation_input_tokens: written,
      cache_read_input_tokens: cached,
      ...(details && {
        cache_creation: {
          ephemeral_5m_input_tokens: written - writtenForHour,
          ephemeral_1h_input_tokens: writtenForHour,
        },
        ...thinkingIn(details),
      }),
    },
  };
}

function events(pieces: readonly string[], tokens: Tokens, { model }: ChatRequest): Event[] {
  return [
    named("message_start", { message: message(model, [], null, { ...tokens, output: 2 }) }),
    named("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
    named("ping", {}),
    ...pieces.map(delta),
    named("content_block_stop", { index: 0 }),
    stop("end_turn", tokens.output, tokens.details),
    named("message_stop", {}),
  ];
}

function read({ path, headers, body }: Received, key: string): ChatRequest | ErrorAnswer {
  const isCount = path === "/v1/messages/count_tokens";
  if (path !== "/v1/messages" && !isCount) return error("not-found");
  const shown = headers["x-api-key"] ?? headers.authorization?.replace(/^Bearer /, "");
  if (shown !== key) return error("bad-key", String(shown));
  const version = headers["anthropic-version"];
  if (version !== "2023-06-01" && version !== "2026-10-21")
    return error("invalid", "not a valid version");
  const known = MODELS[(body as { model: string }).model];
  if (!known) return error("not-found");
  const given = isCount ? { max_tokens: 1, ...(body as object) } : body;
  const { data, error: wrong } = bodySchema.safeParse(given);
  if (wrong) return error("invalid", wrong.message);
  const missing = missingBeta(data, String(headers["anthropic-beta"]));
  if (missing) return error("invalid", `This needs the beta ${missing}.`);
  const fault = faultIn(data, known.temperature && version === "2023-06-01", !known.temperature);
  if (fault) return error("invalid", fault);
  const { model, messages, system, stream } = data;
  const input = textOf(system) + messages.map((sent) => textOf(sent.content)).join("");
  if (isCount) return { status: 200, body: { input_tokens: tokensIn(input) } };
  const asked = messages.findLast(({ role }) => role === "user");
  const lastMessage = textOf(asked?.content ?? "");
  return { model, stream, usage: true, lastMessage, input };
}

/** The beta features that a request uses without naming one that has them. */
function missingBeta(
  { messages, tools = [], context_management }: z.infer<typeof bodySchema>,
  betas: string,
): string | undefined {
  const used = {
    "mid-conversation": messages.some(({ role }) => role === "system"),
    "context-management": context_management !== undefined,
    "advanced-tool-use": tools.some(({ defer_loading }) => defer_loading),
  };
  return Object.entries(used).find(([name, isUsed]) => isUsed && !betas.includes(name))?.[0];
}

/** What the API rejects although each field is valid. */
function faultIn(
  { temperature, top_p, thinking, tool_choice, messages }: z.infer<typeof bodySchema>,
  isSampled: boolean,
  isThinker: boolean,
): string | undefined {
  if ((temperature ?? top_p) !== undefined && !isSampled)
    return "temperature: Extra inputs are not permitted";
  if (thinking && !isThinker) return "thinking: not supported";
  if (thinking?.type !== "adaptive") return undefined;
  if (/^(any|tool)$/.test(tool_choice?.type ?? ""))
    return "Thinking may not be enabled when tool_choice forces tool use.";
  const isThought = ({ content: sent }: (typeof messages)[number]) =>
    blocksOf(sent).some(({ type }) => type === "thinking");
  return messages.some((sent) => idsOf(sent.content).results.length > 0) &&
    !messages.some(isThought)
    ? "Expected `thinking`, but found `tool_use`."
    : undefined;
}

const ERRORS: Record<ErrorName, [status: number, type: string]> = {
  invalid: [400, "invalid_request_error"],
  "bad-key": [401, "authentication_error"],
  "no-credit": [402, "billing_error"],
  forbidden: [403, "permission_error"],
  "not-found": [404, "not_found_error"],
  "too-large": [413, "request_too_large"],
  "rate-limited": [429, "rate_limit_error"],
  quota: [402, "billing_error"],
  broken: [500, "api_error"],
  overloaded: [529, "overloaded_error"],
  timeout: [504, "timeout_error"],
};

function error(name: ErrorName, echo = ""): ErrorAnswer {
  const [status, type] = ERRORS[name];
  return {
    status,
    body: {
      type: "error",
      error: { type, message: `Refused: ${echo}` },
      request_id: "req_simulated",
    },
  };
}
