import {
  argumentsOf,
  CALLING,
  type ChatRequest,
  type DialectEncoder,
  type ErrorAnswer,
  type ErrorName,
  type Event,
  type Received,
  type Tokens,
} from "./dialect-encoder.ts";
import { type House, MISTRAL, OPENAI, textOf } from "./openai-variants.ts";

export const openaiEncoder = (key: string): DialectEncoder => encoder(key, OPENAI);
export const mistralEncoder = (key: string): DialectEncoder => encoder(key, MISTRAL);

function encoder(key: string, house: House): DialectEncoder {
  return {
    lineEnd: "\n",
    read: (received) => read(received, key, house),
    events: (pieces, tokens, chatRequest) => events(pieces, tokens, chatRequest, house),
    delta: (text) => chunk({ delta: { content: text }, finish_reason: null }),
    whole: (text, tokens, { model }) => ({
      id: "chatcmpl-simulated",
      object: "chat.completion",
      created: 1_763_000_000,
      model,
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: text, refusal: null },
          finish_reason: "stop",
        },
      ],
      usage: usage(tokens),
    }),
    error,
    errorEvent: () => ({ data: JSON.stringify(error("overloaded").body) }),
    closes: ({ data }) => data === "[DONE]" || /"finish_reason":"/.test(data),
    idle: [
      {
        data: JSON.stringify({
          ...HEAD,
          choices: [],
          prompt_filter_results: [{ prompt_index: 0 }],
        }),
      },
      { data: JSON.stringify({ ...HEAD }) },
      chunk({ delta: { role: "assistant" }, finish_reason: null }),
      chunk({ delta: { content: null }, finish_reason: null }),
      chunk({ delta: { content: "" } }),
      chunk({}),
    ],
    thinking: chunk({ delta: house.thought, finish_reason: null }),
    blocked: {
      events: [
        chunk({ delta: {}, finish_reason: "content_filter" }),
        USAGE_CHUNK,
        { data: "[DONE]" },
      ],
      whole: silent("content_filter"),
    },
    toolCall: {
      events: [
        chunk({ delta: { role: "assistant", content: null }, finish_reason: null }),
        chunk({ delta: { tool_calls: [{ index: 0, ...TOOL_CALL }] }, finish_reason: null }),
        chunk({ delta: {}, finish_reason: "tool_calls" }),
        USAGE_CHUNK,
        { data: "[DONE]" },
      ],
      whole: silent("tool_calls", { tool_calls: [TOOL_CALL] }),
    },
    calling: { events: callingEvents(house), whole: callingWhole(house) },
  };
}

const idOf = (index: number) => `call_0000${index}`;

/** The pieces of the two calls alternate. */
function callingEvents({ thoughtOf }: House): Event[] {
  const longest = Math.max(...CALLING.calls.map(({ pieces }) => pieces.length));
  const rounds = Array.from({ length: longest }, (_, round) =>
    CALLING.calls.flatMap(({ name, pieces }, index) => {
      const piece = pieces[round];
      if (piece === undefined) return [];
      const begin = { id: idOf(index), type: "function", function: { name, arguments: piece } };
      const call = round === 0 ? begin : { function: { arguments: piece } };
      return [chunk({ delta: { tool_calls: [{ index, ...call }] }, finish_reason: null })];
    }),
  );
  return [
    chunk({ delta: { role: "assistant", content: "" }, finish_reason: null }),
    ...CALLING.thoughts.map((text) => chunk({ delta: thoughtOf(text), finish_reason: null })),
    chunk({ delta: { content: CALLING.text }, finish_reason: null }),
    ...rounds.flat(),
    chunk({ delta: {}, finish_reason: "tool_calls" }),
    { data: JSON.stringify({ ...HEAD, choices: [], usage: callingUsage }) },
    { data: "[DONE]" },
  ];
}

const callingUsage = {
  ...usage(CALLING.usage),
  prompt_tokens_details: { cached_tokens: CALLING.usage.cached },
  completion_tokens_details: { reasoning_tokens: CALLING.usage.reasoning },
};

function callingWhole({ thoughtOf }: House): unknown {
  const thought = thoughtOf(CALLING.thoughts.join("")) as { content?: object[] };
  const content = thought.content
    ? [...thought.content, { type: "text", text: CALLING.text }]
    : CALLING.text;
  const tool_calls = CALLING.calls.map((call, index) => ({
    id: idOf(index),
    type: "function",
    function: { name: call.name, arguments: argumentsOf(call) },
  }));
  const message = { role: "assistant", ...thought, content, tool_calls };
  return {
    ...HEAD,
    choices: [{ index: 0, message, finish_reason: "tool_calls" }],
    usage: callingUsage,
  };
}

const HEAD = {
  id: "chatcmpl-simulated",
  object: "chat.completion.chunk",
  created: 1_763_000_000,
  model: "simulated",
};
const TOOL_CALL = {
  id: "call_1",
  type: "function",
  function: { name: "look_up", arguments: "{}" },
};
const chunk = (choice: object, usage: object | null = null): Event => ({
  data: JSON.stringify({ ...HEAD, choices: [{ index: 0, ...choice }], usage }),
});
/** A whole reply without text. */
const silent = (reason: string, message: object = {}) => ({
  ...HEAD,
  choices: [
    { index: 0, message: { role: "assistant", content: null, ...message }, finish_reason: reason },
  ],
  usage: usage({ input: 1, output: 1 }),
});
function usage({ input, output, details }: Tokens) {
  const counts = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
  if (!details) return counts;
  const { cached, written, reasoning } = details;
  return {
    ...counts,
    prompt_tokens_details: {
      cached_tokens: cached,
      ...(written > 0 && { cache_write_tokens: written }),
    },
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}
const USAGE_CHUNK = {
  data: JSON.stringify({ ...HEAD, choices: [], usage: usage({ input: 1, output: 1 }) }),
};

function events(
  pieces: readonly string[],
  tokens: Tokens,
  chatRequest: ChatRequest,
  house: House,
): Event[] {
  return [
    chunk({ delta: { role: "assistant", content: "", refusal: null }, finish_reason: null }),
    ...pieces.map((text) => chunk({ delta: { content: text }, finish_reason: null })),
    chunk(
      { delta: house.alwaysReportsUsage ? { content: "" } : {}, finish_reason: "stop" },
      house.alwaysReportsUsage ? usage(tokens) : null,
    ),
    ...(chatRequest.usage
      ? [{ data: JSON.stringify({ ...HEAD, choices: [], usage: usage(tokens) }) }]
      : []),
    { data: "[DONE]" },
  ];
}

function read(
  { path, headers, body }: Received,
  key: string,
  house: House,
): ChatRequest | ErrorAnswer {
  if (path !== "/v1/chat/completions") return error("not-found");
  const given = headers.authorization?.replace(/^Bearer /, "");
  if (given !== key) return error("bad-key", given);
  const schema = house.models[(body as { model: string }).model];
  if (!schema) return error("not-found");
  const { data, error: wrong } = schema.safeParse(body);
  if (wrong) return error("invalid", wrong.message);
  const { model, messages, stream, stream_options } = data;
  return {
    model,
    stream,
    usage: stream_options?.include_usage ?? false,
    lastMessage: textOf(messages.findLast(({ role }) => role !== "assistant")?.content ?? ""),
    input: messages.map(({ content }) => textOf(content)).join(""),
  };
}

const ERRORS: Record<ErrorName, [status: number, type: string, code: string | null]> = {
  invalid: [400, "invalid_request_error", "unsupported_value"],
  "bad-key": [401, "invalid_request_error", "invalid_api_key"],
  "no-credit": [402, "insufficient_quota", "credit_balance_exhausted"],
  forbidden: [403, "permission_error", null],
  "not-found": [404, "invalid_request_error", "model_not_found"],
  "too-large": [413, "invalid_request_error", null],
  "rate-limited": [429, "requests", "rate_limit_exceeded"],
  quota: [429, "insufficient_quota", "organization_spend_limit_exceeded"],
  broken: [500, "server_error", null],
  overloaded: [503, "server_error", "server_is_overloaded"],
  timeout: [504, "timeout", null],
};

function error(name: ErrorName, echo = ""): ErrorAnswer {
  const [status, type, code] = ERRORS[name];
  const message =
    name === "bad-key"
      ? `Incorrect API key provided: ${echo}. See https://platform.openai.com`
      : `Refused: ${echo}`;
  return { status, body: { error: { message, type, param: null, code } } };
}
