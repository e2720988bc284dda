import type { ProviderErrorKind } from "./errors.ts";
import type { FinishReason, Prompt, PromptMessage } from "./provider.ts";

/** A dialect: how prompts are sent, and how replies are read. */
export type Adapter = {
  /** Below the base URL. */
  path(prompt: FittedPrompt): string;
  headers(key: string, prompt: FittedPrompt): Record<string, string>;
  body(prompt: FittedPrompt): object;
  /**
   * Parses an event of a stream or a complete reply. Nothing is certain of it but that it is an
   * object. May throw over what it cannot read.
   */
  parse(document: object): ParsedEvent;
  /** `[DONE]`, or the end of a complete reply, may take the place of the finish marker. */
  finishesWithDone?: boolean;
};

/** Token counts as the provider reports them. Input that its caches held may be counted apart. */
export type UsageCounts = {
  [count in "inputTokens" | "cacheWriteTokens" | "cacheReadTokens" | "outputTokens"]?:
    | number
    | null
    | undefined;
};

/** What one event of a stream, or a complete reply, says. */
export type ParsedEvent = {
  text?: string | undefined;
  usage?: UsageCounts | null | undefined;
  /** Something was produced that is not shown (reasoning): neither silence nor text. */
  active?: boolean | undefined;
  /** The finish marker. From here on the reply may end. */
  finished?: FinishReason | undefined;
  /** Nothing that follows matters. */
  over?: boolean | undefined;
  failed?: ProviderErrorKind | undefined;
  /** The model calls a tool although none was offered. Without any text this is no reply. */
  callsTool?: boolean | undefined;
};

/** Sent where a provider requires a message of the user. */
const CONTINUE: PromptMessage = { role: "user", content: "Please continue." };

/**
 * A prompt as far as its model takes it: fields are undefined that it refuses, or that the request
 * does not have.
 */
export type FittedPrompt = ReturnType<typeof fitPrompt>;

/**
 * Fits a prompt to its model. Messages are split into system text and the rest, without empty ones.
 */
export function fitPrompt({
  model,
  isStream,
  systemPrompt = "",
  messages,
  maxTokens,
  temperature,
}: Prompt) {
  const contents = messages.filter(({ role }) => role === "system").map(({ content }) => content);
  return {
    model,
    isStream,
    /**
     * All system text in one: some providers have a field for it, others refuse it after a reply.
     */
    system: [systemPrompt, ...contents].filter((text) => text !== "").join("\n\n") || undefined,
    turns: messages.filter(({ role, content }) => role !== "system" && content !== ""),
    outputTokens: maxTokens && Math.min(maxTokens, model.outputTokens),
    temperature:
      temperature === undefined || model.temperature === "refused"
        ? undefined
        : Math.min(temperature, model.temperature),
  };
}

/**
 * The turns with a short user message before and after them, where they begin or end with the
 * assistant.
 */
export function userTurnsOf({ turns }: FittedPrompt) {
  const isAssistant = (turn: PromptMessage | undefined) => turn?.role === "assistant";
  const before = isAssistant(turns[0]) ? [CONTINUE] : [];
  const after = isAssistant(turns.at(-1)) ? [CONTINUE] : [];
  return mergeAdjacent([...before, ...turns, ...after]);
}

/** Joins adjacent messages of one role, which some providers refuse. */
export function mergeAdjacent<Role extends string>(
  messages: readonly { role: Role; content: string }[],
) {
  const merged: { role: Role; content: string }[] = [];
  for (const { role, content } of messages) {
    const last = merged.at(-1);
    if (last?.role === role) last.content += `\n\n${content}`;
    else merged.push({ role, content });
  }
  return merged;
}

/**
 * The finish reason that a dialect names so, or any of those that mean the maximum number of
 * tokens.
 */
export const finishReasonOf = (reason: string | null | undefined, atMaximum: readonly string[]) =>
  reason ? (atMaximum.includes(reason) ? "length" : "stop") : undefined;

/**
 * Text that may be absent.
 * @throws TypeError for any other type
 */
export function requireText(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new TypeError("Text is a string.");
  return value;
}
