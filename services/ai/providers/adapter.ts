import { parseExactly } from "../../platform/rpc/exact-json.ts";
import { isBlank } from "../blank-text.ts";
import type { ApiPath } from "./endpoint-path.ts";
import type { ProviderErrorKind } from "./errors.ts";
import type { Finish } from "./finish-words.ts";
import type { Prompt, PromptImage, PromptMessage, PromptPart, PromptToolCall } from "./provider.ts";
import type { UsageCounts } from "./token-counts.ts";
import type { ToolCallPart } from "./tool-calls.ts";

/** A dialect: how to send prompts and read replies. */
export type Adapter = {
  /** Path below the base URL. */
  path(prompt: FittedPrompt): ApiPath;
  headers(key: string, prompt: FittedPrompt): Record<string, string>;
  body(prompt: FittedPrompt): object;
  /**
   * Parses an event of a stream, or a complete reply. The document is an object; everything else
   * about it is unchecked.
   * @throws Error of any kind if it cannot be read
   */
  parse(document: object): ParsedEvent;
  /** `[DONE]` may replace the finish marker. */
  finishesWithDone?: boolean;
  /** Maximum size of an event, in characters, if it is not the usual one. */
  maxEventCharacters?: number;
};

/** The part of a dialect that reads replies. */
export type ReplyParser = Pick<Adapter, "parse" | "finishesWithDone" | "maxEventCharacters">;

/** The content of one event of a stream, or of a complete reply. */
export type ParsedEvent = {
  text?: string | undefined;
  /** Text of the model's reasoning. */
  reasoning?: string | undefined;
  toolCalls?: readonly ToolCallPart[] | undefined;
  usage?: UsageCounts | null | undefined;
  /** Content that is not text, such as reasoning: not silence either. */
  active?: boolean | undefined;
  /** Finish marker. From here on the reply may end. */
  finish?: Finish | undefined;
  /** Closing frame of the dialect. Whatever follows is ignored. */
  over?: boolean | undefined;
  failed?: ProviderErrorKind | undefined;
  /**
   * Content was skipped: an image, an unknown kind. A reply without any text is then unreadable,
   * and so is one with tool calls for which no tool was offered.
   */
  skipped?: boolean | undefined;
  /** The finish marker is that of tool calls. */
  endsWithToolCall?: boolean | undefined;
  /** A complete reply, which ends with its document even without a finish marker. */
  whole?: boolean | undefined;
  /** The beginning of a reply. After content it is that of another one. */
  opening?: boolean | undefined;
  /** The document is nothing that the dialect has. It may be an error in its own form. */
  foreign?: boolean | undefined;
};

/** A message of the user or the model, or the result of a tool call. */
export type Turn = PromptMessage & { role: "user" | "assistant" | "tool" };

/** Sent where a provider requires a user message. */
const CONTINUE: Turn = { role: "user", parts: [{ text: "Please continue." }] };

/**
 * A prompt fitted to its model. Fields that the model rejects, or that the request does not have,
 * are undefined.
 */
export type FittedPrompt = ReturnType<typeof fitPrompt>;

/**
 * Fits a prompt to its model. Splits the messages into system text and turns, and drops blank ones.
 * For a model that has no place for system text, it becomes the first turn of the user.
 */
export function fitPrompt({ messages, systemPrompt = "", maxTokens, ...prompt }: Prompt) {
  const { model, temperature } = prompt;
  const contents = messages.filter(({ role }) => role === "system").map(joinedText);
  const system = [systemPrompt, ...contents].filter((text) => !isBlank(text)).join("\n\n");
  const turns = messages.filter(isTurn).map(withoutBlanks).filter(hasContent);
  const isSystemTurn = model.systemRole === "user" && system !== "";
  return {
    ...prompt,
    /** All system text: some providers have a field for it, others reject it after a reply. */
    system: isSystemTurn ? undefined : system || undefined,
    turns: isSystemTurn ? [{ role: "user", parts: [{ text: system }] } as Turn, ...turns] : turns,
    outputTokens: maxTokens && Math.min(maxTokens, model.outputTokens),
    temperature:
      temperature === undefined || model.temperature === "refused"
        ? undefined
        : Math.min(temperature, model.temperature),
  };
}

const isTurn = (message: PromptMessage): message is Turn => message.role !== "system";

/** Some providers reject parts without visible text. */
function withoutBlanks(turn: Turn): Turn {
  const isShown = (part: PromptPart) => !("text" in part) || !isBlank(part.text);
  return turn.parts.every(isShown) ? turn : { ...turn, parts: turn.parts.filter(isShown) };
}

const hasContent = ({ role, parts, toolCalls }: Turn) =>
  parts.length > 0 || role === "tool" || Boolean(toolCalls?.length);

/** The texts of a message, as one. */
export const joinedText = ({ parts }: Pick<PromptMessage, "parts">): string =>
  parts.flatMap((part) => ("text" in part ? [part.text] : [])).join("\n\n");

/** The only text of a message, if that is all it has. */
export const onlyTextOf = ([part, ...others]: readonly PromptPart[]): string | undefined =>
  part && "text" in part && others.length === 0 ? part.text : undefined;

/** The `data:` URL of an image, or its address. */
export const urlOf = ({ mediaType, data, url }: PromptImage): string =>
  url || `data:${mediaType};base64,${data}`;

/** The arguments of a tool call. They have been checked to be an object. */
export const argumentsOf = ({ arguments: json }: PromptToolCall): object =>
  isBlank(json) ? {} : (parseExactly(json) as object);

/** The turns, with a short user message added where they begin or end with the assistant. */
export function userTurnsOf({ turns }: FittedPrompt): Turn[] {
  const isAssistant = (turn: Turn | undefined) => turn?.role === "assistant";
  const before = isAssistant(turns[0]) ? [CONTINUE] : [];
  const after = isAssistant(turns.at(-1)) ? [CONTINUE] : [];
  return mergeAdjacent([...before, ...turns, ...after]);
}

/**
 * Joins adjacent messages of the same role, which some providers reject. Results of tool calls
 * remain apart.
 */
export function mergeAdjacent(turns: readonly Turn[]): Turn[] {
  const runs: Turn[][] = [];
  for (const turn of turns) {
    const run = runs.at(-1);
    if (run?.[0]?.role === turn.role && turn.role !== "tool") run.push(turn);
    else runs.push([turn]);
  }
  return runs.map(joined);
}

/** Messages of the same role as one. The texts that meet become one part. */
function joined(run: readonly Turn[]): Turn {
  const [first] = run as [Turn];
  if (run.length === 1) return first;
  const parts: PromptPart[] = [];
  for (const [start, ...others] of run.map((turn) => turn.parts)) {
    const end = parts.at(-1);
    if (end && start && "text" in end && "text" in start)
      parts[parts.length - 1] = { text: `${end.text}\n\n${start.text}` };
    else if (start) parts.push(start);
    for (const part of others) parts.push(part);
  }
  const toolCalls = run.flatMap((turn) => turn.toolCalls ?? []);
  return { role: first.role, parts, ...(toolCalls.length > 0 && { toolCalls }) };
}

/**
 * Whether a choice or candidate is the first of its reply, the only one that is requested.
 * @throws TypeError for a value that is neither
 */
export function isFirst(item: { index?: unknown } | null | undefined): boolean {
  if (item && typeof item !== "object") throw new TypeError("A choice is an object.");
  return Number(item?.index ?? 0) === 0;
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
 * Reads a list that may be absent. Servers in Lua and PHP write an empty one as an empty object.
 * @throws TypeError for any other type
 */
export function requireList<T>(value: readonly T[] | null | undefined): readonly T[] {
  if (Array.isArray(value)) return value;
  if (isEmptyObject(value || {})) return [];
  throw new TypeError("A list is an array.");
}

/** Whether a value is an object without members. */
export const isEmptyObject = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.keys(value).length === 0;

/** Types of parts that are nothing without a text: `text`, `output_text`. */
const TEXT_TYPE = /text$/;

/**
 * Reads the text of one part of a message, which is a string or an object with a text.
 * @returns undefined for other parts, such as images
 * @throws TypeError for a value that is not a part
 */
export function textOfPart(part: unknown): string | undefined {
  if (typeof part === "string") return part;
  if (typeof part !== "object" || part === null || Array.isArray(part))
    throw new TypeError("A part is text or an object.");
  const { type, text } = part as { type?: unknown; text?: unknown };
  if (text !== undefined) return requireText(text);
  if (typeof type === "string" && TEXT_TYPE.test(type))
    throw new TypeError("The part has no text.");
  return undefined;
}
