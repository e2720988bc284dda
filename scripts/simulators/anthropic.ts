import { z } from "zod";
import type {
  ChatRequest,
  DialectEncoder,
  ErrorAnswer,
  ErrorName,
  Event,
  Received,
  Tokens,
} from "./dialect-encoder.ts";

const MODELS: Record<string, { temperature: boolean }> = {
  "claude-sonnet-5-5": { temperature: false },
  "claude-opus-5-5": { temperature: false },
  "claude-haiku-5-5": { temperature: false },
  "claude-haiku-4-5": { temperature: true },
};
const bodySchema = z.strictObject({
  model: z.string(),
  messages: z
    .array(z.object({ role: z.enum(["user", "assistant"]), content: z.string().min(1) }))
    .min(1)
    .refine(
      (messages) => messages[0]?.role === "user",
      "The first message must have the role user.",
    )
    .refine(
      (messages) => messages.at(-1)?.role === "user",
      "This model does not support assistant message prefill.",
    ),
  system: z.string().default(""),
  max_tokens: z.int().min(1).max(64_000),
  temperature: z.number().min(0).max(1).optional(),
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
  };
}

const TOOL_USE = { type: "tool_use", id: "toolu_1", name: "look_up", input: {} };
const named = (type: string, fields: object): Event => ({
  event: type,
  data: JSON.stringify({ type, ...fields }),
});
const delta = (text: string) =>
  named("content_block_delta", { index: 0, delta: { type: "text_delta", text } });
const stop = (reason: string, output: number) =>
  named("message_delta", {
    delta: { stop_reason: reason, stop_sequence: null },
    usage: { output_tokens: output },
  });

function message(
  model: string,
  content: object[],
  stopReason: string | null,
  { input, output }: Tokens,
) {
  // A part of the input came from the cache, which is counted separately.
  const cached = Math.floor(input / 2);
  return {
    id: "msg_simulated",
    type: "message",
    role: "assistant",
    model,
    content,
    stop_reason: stopReason,
    stop_sequence: null,
    usage: {
      input_tokens: input - cached,
      output_tokens: output,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: cached,
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
    stop("end_turn", tokens.output),
    named("message_stop", {}),
  ];
}

function read({ path, headers, body }: Received, key: string): ChatRequest | ErrorAnswer {
  if (path !== "/v1/messages") return error("not-found");
  const given = headers["x-api-key"] ?? headers.authorization?.replace(/^Bearer /, "");
  if (given !== key) return error("bad-key", String(given));
  const version = headers["anthropic-version"];
  if (version !== "2023-06-01" && version !== "2026-10-21")
    return error("invalid", "not a valid version");
  const known = MODELS[(body as { model: string }).model];
  if (!known) return error("not-found");
  const { data, error: wrong } = bodySchema.safeParse(body);
  if (wrong) return error("invalid", wrong.message);
  const { model, messages, system, temperature, stream } = data;
  if (temperature !== undefined && (version === "2026-10-21" || !known.temperature))
    return error("invalid", "temperature: Extra inputs are not permitted");
  return {
    model,
    stream,
    usage: true,
    lastMessage: messages.at(-1)?.content ?? "",
    input: system + messages.map(({ content }) => content).join(""),
  };
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
