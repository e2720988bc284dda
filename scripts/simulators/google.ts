import type {
  ChatRequest,
  DialectEncoder,
  ErrorAnswer,
  ErrorName,
  Event,
  Received,
  Tokens,
} from "./dialect-encoder.ts";
import { unknownField } from "./dialect-encoder.ts";

const MODELS = ["gemini-3.8-flash", "gemini-3.5-flash", "gemini-3.5-flash-lite"];
const OUTPUT_TOKENS = 65_536;

type Content = { role?: string; parts?: { text?: string }[] };
type Body = {
  contents: Content[];
  systemInstruction?: Content;
  generationConfig?: { maxOutputTokens?: number; temperature?: number };
};

export function googleEncoder(key: string): DialectEncoder {
  return {
    lineEnd: "\r\n",
    read: (received) => read(received, key),
    events,
    delta: (text) => frame({ parts: [{ text }] }),
    whole: (text, tokens) => response({ content: { role: "model", parts: [{ text }] }, finishReason: "STOP" }, tokens),
    error,
    errorEvent: () => ({ data: JSON.stringify(error("overloaded").body) }),
    closes: ({ data }) => /"finishReason":"/.test(data),
    idle: [
      frame({}),
      frame({ parts: [] }),
      frame({ parts: [{ text: "" }] }),
      { data: JSON.stringify({ usageMetadata: { promptTokenCount: 1 }, modelVersion: "simulated" }) },
      { data: JSON.stringify({ candidates: [{ index: 0 }] }) },
    ],
    thinking: frame({ parts: [{ text: "Let me see.", thought: true }] }),
    blocked: {
      events: [{ data: JSON.stringify(response({ finishReason: "SAFETY" }, ONE)) }],
      whole: { promptFeedback: { blockReason: "PROHIBITED_CONTENT" }, usageMetadata: { promptTokenCount: 1 } },
    },
    toolCall: {
      events: [
        frame({ parts: [TOOL_CALL] }),
        {
          data: JSON.stringify(
            response({ content: { role: "model", parts: [{ text: "" }] }, finishReason: "STOP" }, ONE),
          ),
        },
      ],
      whole: response({ content: { role: "model", parts: [TOOL_CALL] }, finishReason: "STOP" }, ONE),
    },
  };
}

const TOOL_CALL = { functionCall: { name: "look_up", args: {} } };
const ONE = { input: 1, output: 1 };
const response = (candidate: object, { input, output }: Tokens) => ({
  candidates: [{ index: 0, ...candidate }],
  usageMetadata: { promptTokenCount: input, candidatesTokenCount: output, totalTokenCount: input + output },
  modelVersion: "simulated",
  responseId: "simulated",
});
const frame = (content: object): Event => ({
  data: JSON.stringify({
    candidates: [{ index: 0, content: { role: "model", ...content } }],
    modelVersion: "simulated",
  }),
});

function events(pieces: readonly string[], tokens: Tokens): Event[] {
  return pieces.map((text, index) => {
    const isLast = index === pieces.length - 1;
    const content = { role: "model", parts: [{ text, ...(isLast && { thoughtSignature: "CiQB" }) }] };
    // Counts grow with every frame. Hidden reasoning is counted separately.
    if (!isLast) return { data: JSON.stringify(response({ content }, { input: tokens.input, output: index + 1 })) };
    const thoughts = Math.min(3, tokens.output);
    const last = response({ content, finishReason: "STOP" }, { ...tokens, output: tokens.output - thoughts });
    return {
      data: JSON.stringify({ ...last, usageMetadata: { ...last.usageMetadata, thoughtsTokenCount: thoughts } }),
    };
  });
}

function read({ path, query, headers, body }: Received, key: string): ChatRequest | ErrorAnswer {
  const [, model = "", method = ""] = /^\/v1(?:beta)?\/models\/([^/:]+):(\w+)$/.exec(path) ?? [];
  if (query.has("key")) return refuse("The key belongs in a header.");
  if (headers["x-goog-api-key"] !== key) return error("bad-key", String(headers["x-goog-api-key"]));
  if (!MODELS.includes(model)) return error("not-found");
  const stream = method === "streamGenerateContent";
  if (!stream && method !== "generateContent") return error("not-found");
  if (stream && query.get("alt") !== "sse") return refuse("This simulator streams events only.");
  const { contents, systemInstruction, generationConfig = {} } = body as Body;
  const unknown =
    unknownField(body as object, ["contents", "systemInstruction", "generationConfig"]) ??
    unknownField(generationConfig, ["maxOutputTokens", "temperature"]);
  if (unknown) return refuse(`Invalid JSON payload received. Unknown name "${unknown}"`);
  const { maxOutputTokens = 1, temperature = 1 } = generationConfig;
  if (!(maxOutputTokens >= 1 && maxOutputTokens <= OUTPUT_TOKENS)) return refuse("maxOutputTokens is out of range");
  if (!(temperature > 0 && temperature <= 2)) return refuse("temperature is out of range");
  if (!Array.isArray(contents) || contents.length === 0) return refuse("contents is not specified");
  if (contents.some(({ role }, index) => !["user", "model"].includes(role ?? "") || role === contents[index - 1]?.role))
    return refuse("Please ensure that multiturn requests alternate between user and model.");
  if (contents[0]?.role !== "user") return refuse("Please ensure that multiturn requests start with a user turn.");
  if (contents.some((content) => textOf(content) === ""))
    return refuse("Unable to submit request: empty text parameter");
  return {
    model,
    stream,
    usage: true,
    lastMessage: textOf(contents.findLast(({ role }) => role === "user")),
    input: textOf(systemInstruction) + contents.map(textOf).join(""),
  };
}

const textOf = (content: Content | undefined) => (content?.parts ?? []).map(({ text = "" }) => text).join("");
const refuse = (message: string): ErrorAnswer => ({
  status: 400,
  body: { error: { code: 400, message, status: "INVALID_ARGUMENT" } },
});

const ERRORS: Record<ErrorName, [status: number, name: string, details?: object[]]> = {
  invalid: [400, "INVALID_ARGUMENT"],
  "bad-key": [
    400,
    "INVALID_ARGUMENT",
    [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }],
  ],
  "no-credit": [402, "FAILED_PRECONDITION"],
  forbidden: [403, "PERMISSION_DENIED"],
  "not-found": [404, "NOT_FOUND"],
  "too-large": [413, "INVALID_ARGUMENT"],
  "rate-limited": [
    429,
    "RESOURCE_EXHAUSTED",
    [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "0s" }],
  ],
  quota: [
    429,
    "RESOURCE_EXHAUSTED",
    [
      {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        violations: [{ quotaId: "GenerateRequestsPerDayPerProjectPerModel" }],
      },
    ],
  ],
  broken: [500, "INTERNAL"],
  overloaded: [503, "UNAVAILABLE"],
  timeout: [504, "DEADLINE_EXCEEDED"],
};

function error(name: ErrorName, echo = ""): ErrorAnswer {
  const [status, statusName, details] = ERRORS[name];
  const message = `Refused: ${echo}`;
  return { status, body: { error: { code: status, message, status: statusName, ...(details && { details }) } } };
}
