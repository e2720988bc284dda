import { z } from "zod";

const messagesOf = (roles: string[]) =>
  z
    .array(
      z.strictObject({
        role: z.string().refine((role) => roles.includes(role)),
        content: z.string(),
      }),
    )
    .min(1);
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
};
type Body = {
  model: string;
  messages: { role: string; content: string }[];
  stream: boolean;
  stream_options?: { include_usage: boolean } | undefined;
};

const openai = {
  ...body,
  messages: messagesOf(["developer", "system", "user", "assistant"]),
  stream_options: z.object({ include_usage: z.boolean() }).optional(),
};
const onlyStreamed = ({ stream, stream_options }: Body) => stream || !stream_options;
const reasoning = z
  .strictObject({ ...openai, max_completion_tokens: tokens(128_000) })
  .refine(onlyStreamed);

export const OPENAI: House = {
  models: {
    "gpt-6.1-sol": reasoning,
    "gpt-6.1-terra": reasoning,
    // It takes a temperature only without reasoning.
    "gpt-6-luna": z
      .strictObject({
        ...openai,
        reasoning_effort: z.literal("none"),
        max_completion_tokens: tokens(128_000),
        temperature: temperature(2),
      })
      .refine(onlyStreamed),
  },
  alwaysReportsUsage: false,
  thought: { reasoning_content: "Let me see.", content: null },
};

const mistral = z.strictObject({
  ...body,
  messages: messagesOf(["system", "user", "assistant"])
    .refine(
      (all) => all.every(({ role }, i) => role !== all[i - 1]?.role),
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
    .refine((all) => all.at(-1)?.role === "user", "Expected last role user."),
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
};
