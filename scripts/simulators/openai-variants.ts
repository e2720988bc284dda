/** The parameters of a model of the OpenAI family. */
type Model = { temperatureMax?: number; field: "max_tokens" | "max_completion_tokens"; outputTokens: number };
/** The differences between OpenAI and a compatible provider. */
export type House = {
  models: Record<string, Model>;
  fields: readonly string[];
  roles: readonly string[];
  alternates: boolean;
  alwaysReportsUsage: boolean;
  thought: object;
};

const reasoning: Model = { field: "max_completion_tokens", outputTokens: 128_000 };

export const OPENAI: House = {
  models: {
    "gpt-5.4": reasoning,
    "gpt-5.4-mini": reasoning,
    "gpt-4.1": { temperatureMax: 2, field: "max_completion_tokens", outputTokens: 32_768 },
  },
  fields: ["model", "messages", "stream", "stream_options", "temperature", "max_completion_tokens", "max_tokens"],
  roles: ["developer", "system", "user", "assistant"],
  alternates: false,
  alwaysReportsUsage: false,
  thought: { reasoning_content: "Let me see.", content: null },
};

const mistral: Model = { temperatureMax: 1.5, field: "max_tokens", outputTokens: 131_072 };

/** Mistral refuses unknown fields, requires alternating roles, and always reports usage. */
export const MISTRAL: House = {
  models: { "mistral-large-latest": mistral, "mistral-medium-latest": mistral, "mistral-small-latest": mistral },
  fields: ["model", "messages", "stream", "temperature", "max_tokens"],
  roles: ["system", "user", "assistant"],
  alternates: true,
  alwaysReportsUsage: true,
  thought: { content: [{ type: "thinking", thinking: [{ type: "text", text: "Let me see." }] }] },
};
