import { z } from "zod";
import { areAnswered } from "./dialect-encoder.ts";

const text = z.strictObject({ type: z.literal("text"), text: z.string().min(1) });
const url = z.string().regex(/^(https:\/\/|data:image\/(png|jpeg|gif|webp);base64,)/);

/** The messages that a house accepts: its roles, its images and its ids of tool calls. */
function messagesOf(roles: string[], image: z.ZodType, id: RegExp, resultName: object) {
  const call = z.strictObject({
    id: z.string().regex(id),
    type: z.literal("function"),
    function: z.strictObject({ name: z.string().min(1), arguments: z.string().min(2) }),
  });
  const plain = z.strictObject({
    role: z.string().refine((role) => roles.includes(role)),
    content: z.union([
      z.string(),
      z.array(z.union([text, z.strictObject({ type: z.literal("image_url"), image_url: image })])),
    ]),
  });
  const calling = z.strictObject({
    role: z.literal("assistant"),
    content: z.string().min(1).nullable(),
    tool_calls: z.array(call).min(1),
  });
  const result = z.strictObject({
    role: z.literal("tool"),
    tool_call_id: z.string(),
    content: z.string(),
    ...resultName,
  });
  return z
    .array(z.union([calling, result, plain]))
    .min(1)
    .refine(
      (messages) =>
        areAnswered(
          messages.map((message) => ({
            ...("tool_calls" in message && { calls: message.tool_calls.map((each) => each.id) }),
            ...("tool_call_id" in message && { results: [message.tool_call_id] }),
          })),
        ),
      "Each tool call needs a result.",
    );
}

/** The text of a message, whatever its form. */
export function textOf(content: Content): string {
  if (!Array.isArray(content)) return content ?? "";
  return content.map((part) => ("text" in part ? part.text : "")).join("");
}

type Content = string | null | (z.infer<typeof text> | { type: "image_url"; image_url: unknown })[];

const schema = z.looseObject({ type: z.string() });
const name = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/);
/** The fields of tools and of the form of replies, which are those of OpenAI everywhere. */
const options = {
  tools: z
    .array(
      z.strictObject({
        type: z.literal("function"),
        function: z.strictObject({
          name,
          description: z.string().optional(),
          parameters: schema.optional(),
          strict: z.boolean().optional(),
        }),
      }),
    )
    .min(1)
    .optional(),
  tool_choice: z
    .union([
      z.enum(["none", "auto", "required"]),
      z.strictObject({ type: z.literal("function"), function: z.strictObject({ name }) }),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  response_format: z
    .union([
      z.strictObject({ type: z.literal("json_object") }),
      z.strictObject({
        type: z.literal("json_schema"),
        json_schema: z.strictObject({
          name,
          description: z.string().optional(),
          schema,
          strict: z.boolean().optional(),
        }),
      }),
    ])
    .optional(),
  top_p: z.number().min(0).max(1).optional(),
  frequency_penalty: z.number().min(-2).max(2).optional(),
  presence_penalty: z.number().min(-2).max(2).optional(),
  stop: z.array(z.string()).min(1).max(4).optional(),
};
const body = { model: z.string(), stream: z.boolean().default(false) };
const tokens = (max: number) => z.int().min(1).max(max).optional();
const temperature = (max: number) => z.number().min(0).max(max).optional();

/**
 * The differences between OpenAI and a compatible provider: the bodies that each model accepts, and
 * details of replies.
 */
export type House = {
  models: Record<string, z.ZodType<Body>>;
  alwaysReportsUsage: boolean;
  thought: object;
  /** The deltas of a thought with a text. */
  thoughtOf(text: string): object;
};
type Body = {
  model: string;
  messages: { role: string; content: Content }[];
  stream: boolean;
  stream_options?: { include_usage: boolean } | undefined;
};

const openai = {
  ...body,
  ...options,
  messages: messagesOf(
    ["developer", "system", "user", "assistant"],
    z.strictObject({ url, detail: z.enum(["auto", "low", "high"]).optional() }),
    /^.{1,40}$/,
    {},
  ),
  seed: z.int().optional(),
  stream_options: z.object({ include_usage: z.boolean() }).optional(),
};
const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
/** Reasoning models take none of these. */
const withoutSampling = {
  top_p: z.never().optional(),
  frequency_penalty: z.never().optional(),
  presence_penalty: z.never().optional(),
};
const onlyStreamed = ({ stream, stream_options }: Body) => stream || !stream_options;
const reasoning = z
  .strictObject({
    ...openai,
    ...withoutSampling,
    max_completion_tokens: tokens(128_000),
    reasoning_effort: z.enum(EFFORTS).optional(),
  })
  .refine(onlyStreamed);

export const OPENAI: House = {
  models: {
    "gpt-6.1-sol": reasoning,
    "gpt-6.1-terra": reasoning,
    // It takes a temperature only without reasoning.
    "gpt-6-luna": z
      .strictObject({
        ...openai,
        reasoning_effort: z.enum(EFFORTS),
        max_completion_tokens: tokens(128_000),
        temperature: temperature(2),
      })
      .refine(
        ({ temperature: given, reasoning_effort }) =>
          given === undefined || reasoning_effort === "none",
        "Unsupported value: temperature.",
      )
      .refine(onlyStreamed),
  },
  alwaysReportsUsage: false,
  thought: { reasoning_content: "Let me see.", content: null },
  thoughtOf: (text) => ({ reasoning_content: text }),
};

const mistral = z.strictObject({
  ...body,
  ...options,
  random_seed: z.int().optional(),
  messages: messagesOf(["system", "user", "assistant"], url, /^[A-Za-z0-9]{9}$/, { name })
    .refine(
      (all) => all.every(({ role }, i) => role === "tool" || role !== all[i - 1]?.role),
      "Expected roles to alternate.",
    )
    .refine(
      (all) => all.every(({ role }, i) => role !== "system" || all[i - 1]?.role !== "assistant"),
      "Late system.",
    )
    .refine(
      (all) => all.find(({ role }) => role !== "system")?.role === "user",
      "Expected first role user.",
    )
    .refine(
      (all) => ["user", "tool"].includes(all.at(-1)?.role ?? ""),
      "Expected last role user or tool.",
    ),
  max_tokens: tokens(131_072),
  temperature: temperature(1.5),
});

/** Mistral refuses unknown fields, requires alternating roles, and always reports usage. */
export const MISTRAL: House = {
  models: {
    "mistral-large-latest": mistral,
    "mistral-medium-latest": mistral,
    "mistral-small-latest": mistral,
  },
  alwaysReportsUsage: true,
  thought: { content: [{ type: "thinking", thinking: [{ type: "text", text: "Let me see." }] }] },
  thoughtOf: (text) => ({ content: [{ type: "thinking", thinking: [{ type: "text", text }] }] }),
};
