import type { ErrorCode } from "./api.ts";
import { codeOfFormat, GatehouseError } from "./errors.ts";
import { eventsOf } from "./events.ts";

/** A request for a reply by `POST /v1/chat/completions`, as far as this client types it. */
export type CompletionRequest = {
  /** `provider/model`, or the name of a model that only one provider has. */
  model: string;
  /** The conversation so far, oldest first. */
  messages: readonly { role: "system" | "user" | "assistant"; content: string }[];
  temperature?: number | undefined;
  max_completion_tokens?: number | undefined;
};

/**
 * What arrives next of a reply: text, text of the model's reasoning, or at the end how it ended and
 * its tokens.
 */
export type CompletionPiece =
  | { kind: "text" | "reasoning"; text: string }
  /** `stop`, `length` at the maximum number of tokens, or `content_filter`. */
  | { kind: "finish"; reason: string }
  /** `cost`: a decimal in the currency of the catalogue. Absent if the model has no price. */
  | { kind: "usage"; inputTokens: number; outputTokens: number; cost?: string };

/** An event of OpenAI's format. */
type Chunk = {
  choices?: {
    delta?: { content?: string | null; reasoning_content?: string };
    finish_reason?: string | null;
  }[];
  usage?: { prompt_tokens: number; completion_tokens: number; cost?: string } | null;
  error?: { message?: string; code?: string };
};

/** The body of a request. */
export const completionBody = (request: CompletionRequest): object => ({
  ...request,
  stream: true,
  stream_options: { include_usage: true },
});

/**
 * The pieces of a streamed completion.
 * @throws GatehouseError `STREAM_ERROR` for an error event, `NETWORK_ERROR` for a stream that ends
 * without `[DONE]`
 */
export async function* piecesOf(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<CompletionPiece, void> {
  for await (const { choices = [], usage, error } of eventsOf<Chunk>(response, signal)) {
    if (error) {
      const message = error.message ?? "";
      const streamCode = codeOfFormat(error.code ?? "", message) as ErrorCode;
      throw new GatehouseError("STREAM_ERROR", message, { status: response.status, streamCode });
    }
    const { delta, finish_reason: reason } = choices[0] ?? {};
    if (delta?.reasoning_content) yield { kind: "reasoning", text: delta.reasoning_content };
    if (delta?.content) yield { kind: "text", text: delta.content };
    if (reason) yield { kind: "finish", reason };
    if (usage)
      yield {
        kind: "usage",
        inputTokens: usage.prompt_tokens,
        outputTokens: usage.completion_tokens,
        ...(usage.cost !== undefined && { cost: usage.cost }),
      };
  }
}
