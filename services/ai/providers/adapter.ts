import { isBlank } from "../blank-text.ts";
import type { ApiPath } from "./endpoint-path.ts";
import type { ProviderErrorKind } from "./errors.ts";
import type { Finish } from "./finish-words.ts";
import type { Prompt, PromptMessage } from "./provider.ts";
import type { UsageCounts } from "./token-counts.ts";

/** A dialect: how to send prompts and read replies. */
export type Adapter = {
  /** Path below the base URL. */
  path(prompt: FittedPrompt): ApiPath;
  headers(key: string, prompt: FittedPrompt): Record<string, string>;
  body(prompt: FittedPrompt): object;
  /**
   * Parses an event of a stream, or a complete reply. The document is an object, and nothing else
   * about it is certain.
   * @throws Error of any kind if it cannot be read
   */
  parse(document: object): ParsedEvent;
  /** `[DONE]` may replace the finish marker. */
  finishesWithDone?: boolean;
};

/** The content of one event of a stream, or of a complete reply. */
export type ParsedEvent = {
  text?: string | undefined;
  usage?: UsageCounts | null | undefined;
  /** Content that is not shown, such as reasoning: neither silence nor text. */
  active?: boolean | undefined;
  /** Finish marker. From here on the reply may end. */
  finish?: Finish | undefined;
  /** Closing frame of the dialect. Whatever follows is ignored. */
  over?: boolean | undefined;
  failed?: ProviderErrorKind | undefined;
  /**
   * Content other than text was skipped: a tool call although no tool was offered, an image, an
   * unknown kind. A reply without any text is then unreadable.
   */
  skipped?: boolean | undefined;
  /** A complete reply, which ends with its document even without a finish marker. */
  whole?: boolean | undefined;
};

/** Sent where a provider requires a user message. */
const CONTINUE: PromptMessage = { role: "user", content: "Please continue." };

/**
 * A prompt fitted to its model. Fields that the model rejects, or that the request does not have,
 * are undefined.
 */
export type FittedPrompt = ReturnType<typeof fitPrompt>;

/**
 * Fits a prompt to its model. Splits the messages into system text and turns, and drops blank ones.
 * For a model that has no place for system text, it becomes the first turn of the user.
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
  const system = [systemPrompt, ...contents].filter((text) => !isBlank(text)).join("\n\n");
  const turns = messages.filter(({ role, content }) => role !== "system" && !isBlank(content));
  const isSystemTurn = model.systemRole === "user" && system !== "";
  return {
    model,
    isStream,
    /** All system text: some providers have a field for it, others reject it after a reply. */
    system: isSystemTurn ? undefined : system || undefined,
    turns: isSystemTurn ? [{ role: "user", content: system } as const, ...turns] : turns,
    outputTokens: maxTokens && Math.min(maxTokens, model.outputTokens),
    temperature:
      temperature === undefined || model.temperature === "refused"
        ? undefined
        : Math.min(temperature, model.temperature),
  };
}

/** The turns, with a short user message added where they begin or end with the assistant. */
export function userTurnsOf({ turns }: FittedPrompt) {
  const isAssistant = (turn: PromptMessage | undefined) => turn?.role === "assistant";
  const before = isAssistant(turns[0]) ? [CONTINUE] : [];
  const after = isAssistant(turns.at(-1)) ? [CONTINUE] : [];
  return mergeAdjacent([...before, ...turns, ...after]);
}

/** Joins adjacent messages of the same role, which some providers reject. */
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
 * Reads text that may be absent.
 * @throws TypeError for any other type
 */
export function requireText(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new TypeError("Text is a string.");
  return value;
}

/**
 * Reads the text of one part of a message, which is a string or an object with a text.
 * @returns undefined for other parts, such as images
 * @throws TypeError for a value that is not a part
 */
export function textOfPart(part: unknown): string | undefined {
  if (typeof part === "string") return part;
  if (typeof part !== "object" || part === null || Array.isArray(part))
    throw new TypeError("A part is text or an object.");
  const { text } = part as { text?: unknown };
  return text === undefined ? undefined : requireText(text);
}
