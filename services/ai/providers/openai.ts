import type { OpenAI } from "openai";
import type { Adapter } from "./adapter.ts";
import { finishReasonOf, type ParsedEvent, type ResponseParser, requireText } from "./decode.ts";
import { type Endpoint, joinUrl } from "./http-client.ts";
import type { Prompt, Usage } from "./provider.ts";
import { mergeAdjacent, outputTokensOf, startAndEndWithUser, temperatureOf, withSystemFirst } from "./provider.ts";

/** Chat completions of OpenAI and of compatible providers. */
export function openaiAdapter({ baseUrl, key, http }: Endpoint, isOpenai: boolean): Adapter {
  const target = joinUrl(baseUrl, "chat/completions");
  const headers = { authorization: `Bearer ${key}` };
  return {
    ...openaiParser,
    send(prompt, stream, signal) {
      const request = { ...requestOf(prompt, isOpenai), ...(stream && streaming(prompt, isOpenai)) };
      return http.post(target, headers, request, signal);
    },
  };
}

function requestOf(prompt: Prompt, isOpenai: boolean): OpenAI.ChatCompletionCreateParams {
  const { model, system = "", messages } = prompt;
  const outputTokens = outputTokensOf(prompt);
  const temperature = temperatureOf(prompt);
  const ordered = withSystemFirst([{ role: "system", content: system }, ...messages]);
  const accepted = isOpenai ? ordered : startAndEndWithUser(ordered);
  return {
    model: model.upstream,
    messages: mergeAdjacent(
      accepted.map(({ role, content }) => ({ role: role === "system" ? model.systemRole : role, content })),
    ),
    ...(outputTokens !== undefined && { [model.outputTokensField]: outputTokens }),
    ...(temperature !== undefined && { temperature }),
  };
}

/** Requests usage, where the provider accepts that, and declines OpenAI's random padding of every chunk. */
function streaming({ model }: Prompt, isOpenai: boolean) {
  const options = { include_usage: true, ...(isOpenai && { include_obfuscation: false }) };
  return { stream: true, ...(model.usageOnRequest && { stream_options: options }) } as const;
}

type Content = string | null | { type?: string; text?: string }[];
type Message = {
  content?: Content;
  refusal?: string | null;
  reasoning_content?: string | null;
  reasoning?: string | null;
  tool_calls?: object[] | null;
};
type Choice = {
  index?: number | null;
  delta?: Message | null;
  message?: Message | null;
  finish_reason?: string | null;
};
type Body = {
  choices?: (Choice | null)[] | null;
  usage?: { prompt_tokens?: number | null; completion_tokens?: number | null; total_tokens?: number | null } | null;
};

/** Chunks and complete replies. Some servers leave out the finish reason, some the final `[DONE]`. */
export const openaiParser: ResponseParser = {
  parseEvent(frame) {
    const { choices, usage } = frame as Body;
    const choice = firstOf(choices);
    return { ...parseChoice(choice, choice?.delta), usage: usageOf(usage) };
  },
  parseBody(body) {
    const { choices, usage } = body as Body;
    const choice = firstOf(choices);
    const parsed = parseChoice(choice, choice?.message);
    return { ...parsed, usage: usageOf(usage), finished: parsed.finished ?? (parsed.text ? "stop" : undefined) };
  },
  finishesWithDone: true,
};

/** Some servers send several choices though one was requested, each in chunks of its own. */
const firstOf = (choices: Body["choices"]) => choices?.find((choice) => (choice?.index ?? 0) === 0);

function parseChoice(choice: Choice | null | undefined, message: Message | null | undefined): ParsedEvent {
  const reason = choice?.finish_reason;
  const content = message?.content;
  return {
    text: textOf(content) + requireText(message?.refusal),
    active: Boolean(message?.reasoning_content || message?.reasoning || (Array.isArray(content) && content.length > 0)),
    finished: finishReasonOf(reason, ["length", "model_length"]),
    callsTool: reason === "tool_calls" || reason === "function_call" || Boolean(message?.tool_calls?.length), // or "stop"
    failed: reason === "content_filter" ? "blocked the content" : reason === "error" ? "broke off" : undefined,
  };
}

/** Text is a string or, from Mistral's reasoning models, a list of parts of which some are text. */
function textOf(content: Content | undefined): string {
  if (!Array.isArray(content)) return requireText(content);
  return content.map((part) => (part.type === "text" ? requireText(part.text) : "")).join("");
}

/** Some providers (xAI, Gemini) count reasoning only in the total. */
function usageOf(usage: Body["usage"]): Partial<Usage> {
  const { prompt_tokens: inputTokens, completion_tokens: written, total_tokens: total } = usage ?? {};
  if (typeof inputTokens !== "number" || typeof written !== "number") return {};
  return { inputTokens, outputTokens: Math.max(written, typeof total === "number" ? total - inputTokens : 0) };
}
