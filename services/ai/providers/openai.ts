import type { OpenAI } from "openai";
import type { Adapter } from "./adapter.ts";
import { type ParsedEvent, type ResponseParser, requireText } from "./decode.ts";
import { type Endpoint, joinUrl } from "./http-client.ts";
import { mergeAdjacent, outputTokensOf, temperatureOf } from "./prompt.ts";
import type { Prompt, Usage } from "./provider.ts";

/** Chat completions: OpenAI's own, and whatever is compatible with them to some degree. */
export function openaiAdapter({ baseUrl, key, http }: Endpoint, isOpenai: boolean): Adapter {
  const target = joinUrl(baseUrl, "chat/completions");
  const headers = { authorization: `Bearer ${key}` };
  return {
    ...openaiMapping,
    send(prompt, stream, signal) {
      const request = { ...requestOf(prompt), ...(stream && streaming(prompt, isOpenai)) };
      return http.post(target, headers, request, signal);
    },
  };
}

function requestOf(prompt: Prompt): OpenAI.ChatCompletionCreateParams {
  const { model, system = "", messages } = prompt;
  const outputTokens = outputTokensOf(prompt);
  const temperature = temperatureOf(prompt);
  const said = [{ role: "system" as const, content: system }, ...messages];
  return {
    model: model.upstream,
    messages: mergeAdjacent(
      said.map(({ role, content }) => ({ role: role === "system" ? model.systemRole : role, content })),
    ),
    ...(outputTokens !== undefined && { [model.outputTokensField]: outputTokens }),
    ...(temperature !== undefined && { temperature }),
  };
}

/** Usage has to be asked for, where it may be; OpenAI's random padding of every chunk is declined. */
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
type Choice = { delta?: Message | null; message?: Message | null; finish_reason?: string | null };
type Body = {
  choices?: Choice[] | null;
  usage?: { prompt_tokens?: number | null; completion_tokens?: number | null; total_tokens?: number | null } | null;
};

/** What chunks and whole completions say. Some servers leave out the finish reason, some the closing `[DONE]`. */
export const openaiMapping: ResponseParser = {
  parseEvent(frame) {
    const { choices, usage } = frame as Body;
    const choice = choices?.[0];
    return { ...meaningOfChoice(choice, choice?.delta), usage: usageOf(usage) };
  },
  parseBody(body) {
    const { choices, usage } = body as Body;
    const choice = choices?.[0];
    const meaning = meaningOfChoice(choice, choice?.message);
    return { ...meaning, usage: usageOf(usage), finished: Boolean(meaning.finished || meaning.text) };
  },
  finishesWithDone: true,
};

function meaningOfChoice(choice: Choice | undefined, message: Message | null | undefined): ParsedEvent {
  const reason = choice?.finish_reason;
  const content = message?.content;
  return {
    text: textOf(content) + requireText(message?.refusal),
    active: Boolean(message?.reasoning_content || message?.reasoning || (Array.isArray(content) && content.length > 0)),
    finished: Boolean(reason),
    callsTool: reason === "tool_calls" || reason === "function_call" || Boolean(message?.tool_calls?.length), // or "stop"
    failed: reason === "content_filter" ? "blocked the content" : reason === "error" ? "broke off" : undefined,
  };
}

/** Text comes as a string, or (Mistral's reasoning models) as parts of which only some are text. */
function textOf(content: Content | undefined): string {
  if (!Array.isArray(content)) return requireText(content);
  return content.map((part) => (part.type === "text" ? requireText(part.text) : "")).join("");
}

/** Some (xAI, Gemini) count reasoning in the total alone. */
function usageOf(usage: Body["usage"]): Partial<Usage> {
  const { prompt_tokens: inputTokens, completion_tokens: written, total_tokens: total } = usage ?? {};
  if (typeof inputTokens !== "number" || typeof written !== "number") return {};
  return { inputTokens, outputTokens: Math.max(written, typeof total === "number" ? total - inputTokens : 0) };
}
