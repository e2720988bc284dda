import { isBlank } from "../blank-text.ts";
import type { ApiPath } from "./endpoint-path.ts";
import type { ProviderErrorKind } from "./errors.ts";
import type { Finish } from "./finish-words.ts";
import type { Prompt, PromptMessage } from "./provider.ts";
import type { UsageCounts } from "./token-counts.ts";

/** A dialect: how prompts are sent, and how replies are read. */
export type Adapter = {
  /** Below the base URL. */
  path(prompt: FittedPrompt): ApiPath;
  headers(key: string, prompt: FittedPrompt): Record<string, string>;
  body(prompt: FittedPrompt): object;
  /**
   * Parses an event of a stream or a complete reply. Nothing is certain of it but that it is an
   * object. May throw over what it cannot read.
   */
  parse(document: object): ParsedEvent;
  /** `[DONE]` may take the place of the finish marker. */
  finishesWithDone?: boolean;
};

/** What one event of a stream, or a complete reply, says. */
export type ParsedEvent = {
  text?: string | undefined;
  usage?: UsageCounts | null | undefined;
  /** Something was produced that is not shown (reasoning): neither silence nor text. */
  active?: boolean | undefined;
  /** The finish marker. From here on the reply may end. */
  finish?: Finish | undefined;
  /** The dialect's closing frame. Nothing that follows matters. */
  over?: boolean | undefined;
  failed?: ProviderErrorKind | undefined;
  /**
   * Content that is no text was left out: a call of a tool although none was offered, an image, a
   * kind that is not known. Without any text this is no reply.
   */
  skipped?: boolean | undefined;
  /** A complete reply: with the end of its document it has ended, even without a finish marker. */
  whole?: boolean | undefined;
};

/** Sent where a provider requires a message of the user. */
const CONTINUE: PromptMessage = { role: "user", content: "Please continue." };

/**
 * A prompt as far as its model takes it: fields are undefined that it refuses, or that the request
 * does not have.
 */
export type FittedPrompt = ReturnType<typeof fitPrompt>;

/**
 * Fits a prompt to its model. Messages are split into system text and the rest, without blank ones.
 * A model that has no place for system text finds it in the first turn of the user.
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
    /**
     * All system text in one: some providers have a field for it, others refuse it after a reply.
     */
    system: isSystemTurn ? undefined : system || undefined,
    turns: isSystemTurn ? [{ role: "user", content: system } as const, ...turns] : turns,
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
 * Text that may be absent.
 * @throws TypeError for any other type
 */
export function requireText(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new TypeError("Text is a string.");
  return value;
}

/**
 * The text of one part of a message: a string, or an object with a text.
 * @returns undefined if the part is something else, such as an image
 * @throws TypeError for what is no part
 */
export function textOfPart(part: unknown): string | undefined {
  if (typeof part === "string") return part;
  if (typeof part !== "object" || part === null || Array.isArray(part))
    throw new TypeError("A part is text or an object.");
  const { text } = part as { text?: unknown };
  return text === undefined ? undefined : requireText(text);
}
