import { z } from "zod";
import {
  argumentsOf,
  CALLING,
  type ChatRequest,
  type DialectEncoder,
  type ErrorAnswer,
  type Event,
  type Received,
  type Tokens,
} from "./dialect-encoder.ts";
import { openaiEncoder } from "./openai.ts";

/** OpenAI's Responses API, as strict as the real one about what a request may refer to. */

const MODELS = ["gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-luna"];
const part = z.union([
  z.strictObject({ type: z.enum(["input_text", "output_text"]), text: z.string() }),
  z.looseObject({ type: z.literal("output_text"), text: z.string() }),
  z.strictObject({
    type: z.literal("input_image"),
    image_url: z.string(),
    detail: z.string().optional(),
  }),
]);
const content = z.union([z.string(), z.array(part)]);
const item = z.union([
  z.looseObject({
    type: z.literal("message").optional(),
    role: z.enum(["user", "assistant", "system", "developer"]),
    content,
  }),
  z.looseObject({ type: z.literal("additional_tools"), tools: z.array(z.lazy(() => tool)) }),
  z.looseObject({ type: z.literal("reasoning"), encrypted_content: z.string().nullish() }),
  z.looseObject({ type: z.literal("function_call"), call_id: z.string(), arguments: z.string() }),
  z.looseObject({
    type: z.literal("function_call_output"),
    call_id: z.string(),
    output: content,
  }),
]);
const functionTool = z.union([
  z.looseObject({ type: z.literal("function"), name: z.string() }),
  z.looseObject({ type: z.literal("custom"), name: z.string() }),
]);
const tool = z.union([
  functionTool,
  z.looseObject({ type: z.literal("namespace"), tools: z.array(functionTool) }),
]);
const bodySchema = z.looseObject({
  model: z.string(),
  input: z.union([z.string(), z.array(item).min(1)]),
  instructions: z.string().nullish(),
  store: z.literal(false),
  stream: z.boolean().nullish(),
  max_output_tokens: z.int().min(16).nullish(),
  tools: z.array(tool).optional(),
});

const textOf = (given: z.infer<typeof content>): string =>
  typeof given === "string"
    ? given
    : given.map((each) => ("text" in each ? each.text : "")).join("");

function textOfItem(given: z.infer<typeof item>): string {
  if ("content" in given && given.content) return textOf(given.content as z.infer<typeof content>);
  return "output" in given ? textOf(given.output as z.infer<typeof content>) : "";
}

export function responsesEncoder(key: string): DialectEncoder {
  const chat = openaiEncoder(key);
  return {
    lineEnd: "\n",
    read: (received) => read(received, key),
    events,
    delta: (text) => textDelta(text, 0),
    whole: (text, tokens, { model }) => response(model, "completed", [message(text)], tokens),
    error: chat.error,
    errorEvent: () => {
      const { error } = chat.error("overloaded").body as { error: object };
      return named({ ...error, type: "error", sequence_number: 7 });
    },
    closes: ({ event }) => event === "response.completed",
    idle: [{ event: "keepalive", data: '{"type":"keepalive","sequence_number":0}' }],
    thinking: named({
      type: "response.reasoning_summary_text.delta",
      item_id: "rs_1",
      output_index: 0,
      summary_index: 0,
      delta: "Let me see.",
    }),
    blocked: {
      events: numbered([
        {
          type: "response.incomplete",
          response: {
            ...response("simulated", "incomplete", [], { input: 1, output: 1 }),
            incomplete_details: { reason: "content_filter" },
          },
        },
      ]),
      whole: {
        ...response("simulated", "incomplete", [], { input: 1, output: 1 }),
        incomplete_details: { reason: "content_filter" },
      },
    },
    toolCall: calling(),
    calling: calling(),
  };
}

const message = (text: string) => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }],
});

function response(
  model: string,
  status: string,
  output: object[],
  { input, output: written }: Tokens,
) {
  return {
    id: "resp_simulated",
    object: "response",
    created_at: 1_763_000_000,
    model,
    status,
    error: null,
    incomplete_details: null,
    instructions: null,
    metadata: {},
    output,
    parallel_tool_calls: true,
    store: false,
    tool_choice: "auto",
    tools: [],
    usage:
      status === "in_progress"
        ? null
        : {
            input_tokens: input,
            input_tokens_details: { cached_tokens: Math.floor(input / 2), cache_write_tokens: 0 },
            output_tokens: written,
            output_tokens_details: { reasoning_tokens: 0 },
            total_tokens: input + written,
          },
  };
}

type Named = { type: string } & Record<string, unknown>;

const named = (event: Named): Event => ({
  event: event.type,
  data: JSON.stringify(event),
});
/** Numbers events from 0, as the API does. */
const numbered = (list: Named[]): Event[] =>
  list.map((event, index) => named({ ...event, sequence_number: index }));

const textDelta = (delta: string, output_index: number): Event =>
  named({
    type: "response.output_text.delta",
    ...{ item_id: "msg_1", output_index, content_index: 0, delta, logprobs: [] },
  });

function events(pieces: readonly string[], tokens: Tokens, { model }: ChatRequest): Event[] {
  const begun = response(model, "in_progress", [], tokens);
  const text = pieces.join("");
  const at = { item_id: "msg_1", output_index: 0, content_index: 0 };
  const done = { type: "output_text", text, annotations: [] };
  return numbered([
    { type: "response.created", response: begun },
    { type: "response.in_progress", response: begun },
    {
      type: "response.output_item.added",
      output_index: 0,
      item: { ...message(""), status: "in_progress", content: [] },
    },
    { type: "response.content_part.added", ...at, part: { ...done, text: "" } },
    ...pieces.map((delta) => ({
      type: "response.output_text.delta",
      ...at,
      delta,
      logprobs: [],
    })),
    { type: "response.output_text.done", ...at, text, logprobs: [] },
    { type: "response.content_part.done", ...at, part: done },
    { type: "response.output_item.done", output_index: 0, item: message(text) },
    {
      type: "response.completed",
      response: response(model, "completed", [message(text)], tokens),
    },
  ]);
}

/** A reply that thinks, says something and calls two tools at once. */
function calling(): { events: Event[]; whole: unknown } {
  const reasoning = {
    id: "rs_1",
    type: "reasoning",
    summary: [{ type: "summary_text", text: CALLING.thoughts.join("") }],
    encrypted_content: "gAAA",
  };
  const calls = CALLING.calls.map((call, index) => ({
    id: `fc_${index}`,
    type: "function_call",
    status: "completed",
    call_id: `call_0000${index}`,
    name: call.name,
    arguments: argumentsOf(call),
  }));
  const output = [reasoning, message(CALLING.text), ...calls];
  const { input, cached, output: written, reasoning: thought } = CALLING.usage;
  const whole = {
    ...response("simulated", "completed", output, { input, output: written }),
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: cached, cache_write_tokens: 0 },
      output_tokens: written,
      output_tokens_details: { reasoning_tokens: thought },
      total_tokens: input + written,
    },
  };
  const begun = response("simulated", "in_progress", [], { input, output: written });
  const at = { item_id: "msg_1", output_index: 1, content_index: 0 };
  const part = { type: "output_text", text: CALLING.text, annotations: [] };
  const list = [
    { type: "response.created", response: begun },
    {
      type: "response.output_item.added",
      output_index: 0,
      item: { ...reasoning, summary: [], encrypted_content: null },
    },
    {
      type: "response.reasoning_summary_part.added",
      ...{ item_id: "rs_1", output_index: 0, summary_index: 0 },
      part: { type: "summary_text", text: "" },
    },
    ...CALLING.thoughts.map((delta) => ({
      type: "response.reasoning_summary_text.delta",
      ...{ item_id: "rs_1", output_index: 0, summary_index: 0, delta },
    })),
    { type: "response.output_item.done", output_index: 0, item: reasoning },
    {
      type: "response.output_item.added",
      output_index: 1,
      item: { ...message(""), status: "in_progress", content: [] },
    },
    { type: "response.content_part.added", ...at, part: { ...part, text: "" } },
    { type: "response.output_text.delta", ...at, delta: CALLING.text, logprobs: [] },
    { type: "response.output_text.done", ...at, text: CALLING.text, logprobs: [] },
    { type: "response.content_part.done", ...at, part },
    { type: "response.output_item.done", output_index: 1, item: message(CALLING.text) },
    ...calls.flatMap((call, index) => {
      const place = { item_id: call.id, output_index: 2 + index };
      const pieces = CALLING.calls[index]?.pieces ?? [];
      return [
        {
          type: "response.output_item.added",
          output_index: 2 + index,
          item: { ...call, status: "in_progress", arguments: "" },
        },
        ...pieces.map((delta) => ({
          type: "response.function_call_arguments.delta",
          ...place,
          delta,
        })),
        {
          type: "response.function_call_arguments.done",
          ...place,
          name: call.name,
          arguments: call.arguments,
        },
        { type: "response.output_item.done", output_index: 2 + index, item: call },
      ];
    }),
    { type: "response.completed", response: whole },
  ];
  return { events: numbered(list), whole };
}

function read({ path, headers, body }: Received, key: string): ChatRequest | ErrorAnswer {
  const { error } = openaiEncoder(key);
  if (path !== "/v1/responses") return error("not-found");
  const given = headers.authorization?.replace(/^Bearer /, "");
  if (given !== key) return error("bad-key", given);
  if (!MODELS.includes((body as { model: string }).model)) return error("not-found");
  const { data, error: wrong } = bodySchema.safeParse(body);
  if (wrong) return error("invalid", wrong.message);
  const { model, input, instructions, stream } = data;
  const items = typeof input === "string" ? [input] : input.map(textOfItem);
  const asked =
    typeof input === "string"
      ? input
      : textOfItem(
          input.findLast(
            (each) =>
              each.type !== "reasoning" &&
              !/^(assistant|developer|system)$/.test(String(each.role)),
          ) as never,
        );
  return {
    model,
    stream: stream ?? false,
    usage: true,
    lastMessage: asked,
    input: (instructions ?? "") + items.join(""),
  };
}
