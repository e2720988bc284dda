import type { OpenAI } from "openai";
import {
  type Adapter,
  type FittedPrompt,
  finishReasonOf,
  mergeAdjacent,
  requireText,
  userTurnsOf,
} from "./adapter.ts";

type Delta = OpenAI.ChatCompletionChunk.Choice.Delta;
type Content = string | null | { type?: string; text?: string }[];
/** Other servers add to the messages of OpenAI. */
type Message = Omit<Delta, "content"> & {
  content?: Content;
  reasoning_content?: string;
  reasoning?: string;
};
type Counts = OpenAI.CompletionUsage;
type Choice = { index?: number; delta?: Message; message?: Message; finish_reason?: string | null };
type Body = { choices?: Choice[]; usage?: Counts };

/** Chat completions of OpenAI. */
export const openaiAdapter: Adapter = {
  path: () => "chat/completions",
  headers: (key) => ({ authorization: `Bearer ${key}` }),
  body: (prompt) => bodyOf(prompt, true),
  /** Some servers leave out the finish reason, some the final `[DONE]`. */
  parse(document) {
    const { choices, usage } = document as Body;
    // Some servers send several choices though one was requested, each in chunks of its own.
    const choice = choices?.find((each) => (each?.index ?? 0) === 0);
    const { content, refusal, reasoning_content, reasoning, tool_calls } =
      choice?.delta ?? choice?.message ?? {};
    const reason = choice?.finish_reason;
    return {
      text: textOf(content) + requireText(refusal),
      usage: usage && countsOf(usage),
      active: Boolean(
        reasoning_content || reasoning || (Array.isArray(content) && content.length > 0),
      ),
      finished: finishReasonOf(reason, ["length", "model_length"]),
      callsTool:
        reason === "tool_calls" || reason === "function_call" || Boolean(tool_calls?.length), // or "stop"
      failed:
        reason === "content_filter"
          ? "blocked the content"
          : reason === "error"
            ? "broke off"
            : undefined,
    };
  },
  finishesWithDone: true,
};

/** Chat completions of other providers. */
export const compatibleAdapter: Adapter = {
  ...openaiAdapter,
  body: (prompt) => bodyOf(prompt, false),
};

function bodyOf(prompt: FittedPrompt, isOpenai: boolean): OpenAI.ChatCompletionCreateParams {
  const { model, isStream, system, outputTokens, temperature } = prompt;
  const turns = isOpenai ? prompt.turns : userTurnsOf(prompt);
  /** Requests usage, and declines OpenAI's random padding of every chunk. */
  const streamOptions = { include_usage: true, ...(isOpenai && { include_obfuscation: false }) };
  return {
    model: model.upstream,
    messages: mergeAdjacent(
      system ? [{ role: model.systemRole, content: system }, ...turns] : turns,
    ),
    ...(outputTokens !== undefined && { [model.outputTokensField]: outputTokens }),
    ...(temperature !== undefined && { temperature }),
    ...(isStream && {
      stream: true,
      ...(model.usageOnRequest && { stream_options: streamOptions }),
    }),
  };
}

/** Text is a string or, from Mistral's reasoning models, a list of parts of which some are text. */
function textOf(content: Content | undefined): string {
  if (!Array.isArray(content)) return requireText(content);
  return content.map((part) => (part.type === "text" ? requireText(part.text) : "")).join("");
}

/** Some providers (xAI, Gemini) count reasoning only in the total. */
function countsOf({
  prompt_tokens: inputTokens,
  completion_tokens: written,
  total_tokens: total,
}: Counts) {
  if (typeof inputTokens !== "number" || typeof written !== "number") return undefined;
  return {
    inputTokens,
    outputTokens: Math.max(written, typeof total === "number" ? total - inputTokens : 0),
  };
}
