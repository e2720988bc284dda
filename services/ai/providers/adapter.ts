import type { ProviderErrorKind } from "./errors.ts";
import type { FinishReason, FittedPrompt } from "./provider.ts";

/** A dialect: how prompts are sent, and how replies are read. */
export type Adapter = {
  /** Below the base URL. */
  path(prompt: FittedPrompt): string;
  headers(key: string, prompt: FittedPrompt): Record<string, string>;
  body(prompt: FittedPrompt): object;
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
