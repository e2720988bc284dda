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
  type Tokens,
} from "./dialect-encoder.ts";

const MODELS = ["gemini-3.8-flash", "gemini-3.5-flash", "gemini-3.5-flash-lite"];
const textSchema = z
  .array(z.object({ text: z.string() }))
  .transform((parts) => parts.map(({ text }) => text).join(""));
/**
 * The signature of the thoughts before the calls of `calling`. Has what base64url writes
 * differently.
 */
const SIGNATURE = "CiQ+/w==";
const called = { id: z.string().min(1), name: z.string().min(1) };
const partSchema = z.union([
  z.strictObject({ text: z.string() }),
  z.strictObject({
    inlineData: z.strictObject({
      mimeType: z.enum(["image/png", "image/jpeg", "image/gif", "image/webp"]),
      data: z.base64(),
    }),
  }),
  z.strictObject({
    functionCall: z.strictObject({ ...called, args: z.looseObject({}) }),
    thoughtSignature: z.literal(SIGNATURE).optional(),
  }),
  z.strictObject({
    functionResponse: z.strictObject({
      ...called,
      response: z.strictObject({ result: z.string() }),
    }),
  }),
]);
type Part = z.infer<typeof partSchema>;

/** The text of parts, results of tools included. */
const textOf = (parts: readonly Part[]) =>
  parts
    .map((part) =>
      "functionResponse" in part
        ? part.functionResponse.response.result
        : "text" in part
          ? part.text
          : "",
    )
    .join("\n");
/** Calls and results by id and name, which must be the same. */
const idsOf = (parts: readonly Part[]) => ({
  calls: parts.flatMap((part) =>
    "functionCall" in part ? [`${part.functionCall.id} ${part.functionCall.name}`] : [],
  ),
  results: parts.flatMap((part) =>
    "functionResponse" in part ? [`${part.functionResponse.id} ${part.functionResponse.name}`] : [],
  ),
});
/** The first call of a turn needs its signature. */
function isSigned(parts: readonly Part[]): boolean {
  const first = parts.find((part) => "functionCall" in part);
  return first === undefined || ("thoughtSignature" in first && Boolean(first.thoughtSignature));
}

const bodySchema = z.strictObject({
  contents: z
    .array(z.strictObject({ role: z.enum(["user", "model"]), parts: z.array(partSchema).min(1) }))
    .min(1)
    .refine(
      (contents) => contents.every(({ parts }) => isSigned(parts)),
      "Function call is missing a thought_signature in functionCall parts.",
    )
    .refine(
      (contents) => areAnswered(contents.map(({ parts }) => idsOf(parts))),
      "The number of function response parts must equal that of the function call parts.",
    )
    .refine((contents) => contents[0]?.role === "user", "The first turn must be the user's.")
    .refine(
      (contents) => contents.every(({ role }, index) => role !== contents[index - 1]?.role),
      "Turns must alternate between user and model.",
    ),
  systemInstruction: z.object({ parts: textSchema }).optional(),
  generationConfig: z
    .strictObject({
      maxOutputTokens: z.number().min(1).max(65_536).optional(),
      temperature: z.number().positive().max(2).optional(),
      topP: z.number().min(0).max(1).optional(),
      stopSequences: z.array(z.string()).min(1).max(5).optional(),
      seed: z.int().optional(),
      frequencyPenalty: z.number().optional(),
      presencePenalty: z.number().optional(),
      responseMimeType: z.literal("application/json").optional(),
      responseJsonSchema: z.looseObject({}).optional(),
      thinkingConfig: z
        .strictObject({
          thinkingLevel: z.enum(["MINIMAL", "LOW", "MEDIUM", "HIGH"]),
          includeThoughts: z.literal(true),
        })
        .optional(),
    })
    .optional(),
  tools: z
    .tuple([
      z.strictObject({
        functionDeclarations: z
          .array(
            z.strictObject({
              name: z.string().regex(/^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/),
              description: z.string().optional(),
              parametersJsonSchema: z.looseObject({}).optional(),
            }),
          )
          .min(1),
      }),
    ])
    .optional(),
  toolConfig: z
    .strictObject({
      functionCallingConfig: z.strictObject({
        mode: z.enum(["NONE", "AUTO", "ANY"]),
        allowedFunctionNames: z.array(z.string()).min(1).optional(),
      }),
    })
    .optional(),
});

export function googleEncoder(key: string): DialectEncoder {
  return {
    lineEnd: "\r\n",
    read: (received) => read(received, key),
    events,
    delta: (text) => frame({ parts: [{ text }] }),
    whole: (text, tokens) =>
      response({ content: { role: "model", parts: [{ text }] }, finishReason: "STOP" }, tokens),
    error,
    errorEvent: () => ({ data: JSON.stringify(error("overloaded").body) }),
    closes: ({ data }) => /"finishReason":"/.test(data),
    idle: [
      frame({}),
      frame({ parts: [] }),
      frame({ parts: [{ text: "" }] }),
      {
        data: JSON.stringify({ usageMetadata: { promptTokenCount: 1 }, modelVersion: "simulated" }),
      },
      { data: JSON.stringify({ candidates: [{ index: 0 }] }) },
    ],
    thinking: frame({ parts: [{ text: "Let me see.", thought: true }] }),
    blocked: {
      events: [{ data: JSON.stringify(response({ finishReason: "SAFETY" }, ONE)) }],
      whole: {
        promptFeedback: { blockReason: "PROHIBITED_CONTENT" },
        usageMetadata: { promptTokenCount: 1 },
      },
    },
    toolCall: {
      events: [
        frame({ parts: [TOOL_CALL] }),
        {
          data: JSON.stringify(
            response(
              { content: { role: "model", parts: [{ text: "" }] }, finishReason: "STOP" },
              ONE,
            ),
          ),
        },
      ],
      whole: response(
        { content: { role: "model", parts: [TOOL_CALL] }, finishReason: "STOP" },
        ONE,
      ),
    },
    calling: { events: callingEvents(), whole: callingWhole() },
  };
}

const callingParts = CALLING.calls.map((call, index) => ({
  functionCall: { name: call.name, args: JSON.parse(argumentsOf(call)) },
  ...(index === 0 && { thoughtSignature: SIGNATURE }),
}));
const { input, cached, output, reasoning } = CALLING.usage;
const callingUsage = {
  promptTokenCount: input,
  cachedContentTokenCount: cached,
  candidatesTokenCount: output - reasoning,
  thoughtsTokenCount: reasoning,
  totalTokenCount: input + output,
};
const thoughtPart = (text: string) => ({ text, thought: true });

/** Every call arrives whole. */
function callingEvents(): Event[] {
  const last = {
    ...response(
      { content: { role: "model", parts: [{ text: "" }] }, finishReason: "STOP" },
      CALLING.usage,
    ),
    usageMetadata: callingUsage,
  };
  return [
    ...CALLING.thoughts.map((text) => frame({ parts: [thoughtPart(text)] })),
    frame({ parts: [{ text: CALLING.text }] }),
    ...callingParts.map((part) => frame({ parts: [part] })),
    { data: JSON.stringify(last) },
  ];
}

function callingWhole(): unknown {
  const parts = [thoughtPart(CALLING.thoughts.join("")), { text: CALLING.text }, ...callingParts];
  return {
    ...response({ content: { role: "model", parts }, finishReason: "STOP" }, CALLING.usage),
    usageMetadata: callingUsage,
  };
}

const TOOL_CALL = { functionCall: { name: "look_up", args: {} } };
const ONE = { input: 1, output: 1 };
/** The part of the input that results of tools are counted as, where there are details. */
const TOOL_RESULTS = 10;

/** Tool results and reasoning are counted separately, cached input is not. */
function countsOf({ input, output, details }: Tokens) {
  if (!details)
    return {
      promptTokenCount: input,
      candidatesTokenCount: output,
      totalTokenCount: input + output,
    };
  const toolResults = Math.min(TOOL_RESULTS, Math.max(0, input - details.cached - 1));
  return {
    promptTokenCount: input - toolResults,
    toolUsePromptTokenCount: toolResults,
    cachedContentTokenCount: details.cached,
    candidatesTokenCount: output - details.reasoning,
    thoughtsTokenCount: details.reasoning,
    totalTokenCount: input + output,
  };
}

const response = (candidate: object, tokens: Tokens) => ({
  candidates: [{ index: 0, ...candidate }],
  usageMetadata: countsOf(tokens),
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
    const content = {
      role: "model",
      parts: [{ text, ...(isLast && { thoughtSignature: "CiQB" }) }],
    };
    // Counts grow with every frame. Hidden reasoning is counted separately.
    if (!isLast) {
      const soFar = index + 1 + (tokens.details?.reasoning ?? 0);
      const output = tokens.details ? Math.min(soFar, tokens.output) : soFar;
      return { data: JSON.stringify(response({ content }, { ...tokens, output })) };
    }
    if (tokens.details)
      return { data: JSON.stringify(response({ content, finishReason: "STOP" }, tokens)) };
    const thoughts = Math.min(3, tokens.output);
    const last = response(
      { content, finishReason: "STOP" },
      { ...tokens, output: tokens.output - thoughts },
    );
    return {
      data: JSON.stringify({
        ...last,
        usageMetadata: { ...last.usageMetadata, thoughtsTokenCount: thoughts },
      }),
    };
  });
}

function read({ path, query, headers, body }: Received, key: string): ChatRequest | ErrorAnswer {
  const [, model = "", method = ""] = /^\/v1(?:beta)?\/models\/([^/:]+):(\w+)$/.exec(path) ?? [];
  if (query.has("key")) return error("invalid", "The key belongs in a header.");
  if (headers["x-goog-api-key"] !== key) return error("bad-key", String(headers["x-goog-api-key"]));
  if (!MODELS.includes(model)) return error("not-found");
  const stream = method === "streamGenerateContent";
  if (!stream && method !== "generateContent") return error("not-found");
  if (stream && query.get("alt") !== "sse")
    return error("invalid", "This simulator streams events only.");
  const { data, error: wrong } = bodySchema.safeParse(body);
  if (wrong) return error("invalid", wrong.message);
  const { contents, systemInstruction } = data;
  return {
    model,
    stream,
    usage: true,
    lastMessage: textOf(contents.findLast(({ role }) => role === "user")?.parts ?? []),
    input: (systemInstruction?.parts ?? "") + contents.map(({ parts }) => textOf(parts)).join(""),
  };
}

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
  return {
    status,
    body: { error: { code: status, message, status: statusName, ...(details && { details }) } },
  };
}
