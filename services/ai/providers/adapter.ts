import { classifyError, type ProviderErrorKind } from "./errors.ts";
import type { FinishReason, Prompt } from "./provider.ts";

/** A dialect: how prompts are sent, and how replies are read. */
export type Adapter = {
  /** Below the base URL. */
  path(prompt: Prompt): string;
  headers(key: string, prompt: Prompt): Record<string, string>;
  body(prompt: Prompt): object;
  /**
   * Parses an event of a stream or a complete reply. Nothing is certain of it but that it is an object. May throw over what
   * it cannot read.
   */
  parse(document: object): ParsedEvent;
  /** `[DONE]`, or the end of a complete reply, may take the place of the finish marker. */
  finishesWithDone?: boolean;
};

/** Token counts as the provider reports them. Input that its caches held may be counted apart. */
export type UsageCounts = {
  [count in "inputTokens" | "cacheWriteTokens" | "cacheReadTokens" | "outputTokens"]?: number | null | undefined;
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

/**
 * Parses one JSON document. Errors look alike in all dialects and may come instead of any document, with HTTP status 200
 * too. Google may wrap them in an array. Never throws.
 */
export function parseDocument(json: string, { parse }: Pick<Adapter, "parse">, isError = false): ParsedEvent {
  let document: unknown;
  try {
    const parsed: unknown = JSON.parse(json);
    document = Array.isArray(parsed) ? parsed[0] : parsed;
  } catch {
    return { failed: isError ? "broke off" : "unreadable reply" };
  }
  if (typeof document !== "object" || document === null) return { failed: "unreadable reply" };
  const { error, type, object } = document as { error?: unknown; type?: unknown; object?: unknown };
  if (error || isError || type === "error" || object === "error") return { failed: classifyError(error || document) };
  try {
    return parse(document);
  } catch {
    return { failed: "unreadable reply" };
  }
}

/** The finish reason that a dialect names so, or any of those that mean the maximum number of tokens. */
export const finishReasonOf = (reason: string | null | undefined, atMaximum: readonly string[]) =>
  reason ? (atMaximum.includes(reason) ? "length" : "stop") : undefined;

/** Text that may be absent. @throws TypeError for any other type */
export function requireText(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new TypeError("Text is a string.");
  return value;
}
