import type { Message } from "@bufbuild/protobuf";
import type {
  CompleteEvent,
  ListedModel,
  Started,
  TokenUsage,
  ToolCallDelta,
} from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { oneLine } from "../transcode/one-line.ts";
import { repliedBy } from "./replied-by.ts";

/** A tool call of a complete reply. */
type ToolCall = {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
  extra_content?: object | undefined;
};

/**
 * Creates the writer of one reply: `chat.completion.chunk`s for a stream, or one `chat.completion`.
 * @param includeUsage whether a stream ends with a chunk that contains the usage
 * @param created Unix time of the reply, in seconds
 */
export function createReply({ includeUsage, created }: { includeUsage: boolean; created: number }) {
  let started: Pick<Started, "id" | "provider" | "model" | "ignored"> | undefined;
  let isFinished = false;
  /** The parts that all chunks have in common, before and after their choices. */
  let [head, tail] = ["", ""];
  const begun = new Set<number>();
  const line = (choices: string, usage: string) => `data: ${head}${choices}${usage}${tail}\n\n`;
  const chunk = (delta: string, finishReason = "null") =>
    line(
      `[{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${finishReason}}]`,
      includeUsage ? ',"usage":null' : "",
    );
  const begin = (event: Started) => {
    started = event;
    const common = { id: completionId(event), object: "chat.completion.chunk", created };
    head = `${oneLine({ ...common, model: event.model }).slice(0, -1)},"choices":`;
    tail = "}";
    return chunk('{"role":"assistant","content":""}');
  };
  const toolCall = ({ index, id, name, arguments: text, thoughtSignature }: ToolCallDelta) => {
    if (begun.has(index)) return { index, function: { arguments: text } };
    begun.add(index);
    return {
      ...{ index, id, type: "function", function: { name, arguments: text } },
      extra_content: extraContent(thoughtSignature),
    };
  };
  return {
    /**
     * Headers of the response that are known so far: the model that replies, and ignored fields.
     */
    headers: (): Record<string, string> => (started ? repliedBy(started) : {}),
    /** Whether the reply is complete. */
    isFinished: () => isFinished,
    /** The server-sent events of an event of the reply. Unknown kinds yield none. */
    event(message: Message): string {
      const { event } = message as CompleteEvent;
      switch (event.case) {
        case "started":
          return begin(event.value);
        case "text":
          return chunk(`{"content":${oneLine(event.value)}}`);
        case "reasoning":
          return chunk(`{"reasoning_content":${oneLine(event.value)}}`);
        case "toolCall":
          return chunk(`{"tool_calls":[${oneLine(toolCall(event.value))}]}`);
        case "finished": {
          isFinished = true;
          const { finishReason, usage } = event.value;
          const last = chunk("{}", oneLine(finishReason));
          return includeUsage ? last + line("[]", `,"usage":${oneLine(usageOf(usage))}`) : last;
        }
        default:
          return "";
      }
    },
    /**
     * Creates the collector of a reply that is not streamed.
     */
    whole() {
      let [content, reasoning, finishReason] = ["", "", ""];
      let usage: TokenUsage | undefined;
      const toolCalls: ToolCall[] = [];
      return {
        add(message: Message): void {
          const { event } = message as CompleteEvent;
          switch (event.case) {
            case "started":
              started = event.value;
              break;
            case "text":
              content += event.value;
              break;
            case "reasoning":
              reasoning += event.value;
              break;
            case "toolCall":
              addToolCall(toolCalls, event.value);
              break;
            case "finished":
              ({ finishReason, usage } = event.value);
              isFinished = true;
          }
        },
        /** The reply as a `chat.completion`, as JSON. */
        text: () =>
          JSON.stringify({
            id: completionId(started),
            object: "chat.completion",
            created,
            model: started?.model,
            choices: [
              {
                index: 0,
                message: {
                  role: "assistant",
                  content: content === "" && toolCalls.length > 0 ? null : content,
                  refusal: null,
                  reasoning_content: reasoning || undefined,
                  tool_calls: toolCalls.length > 0 ? toolCalls : undefined,
                },
                logprobs: null,
                finish_reason: finishReason,
              },
            ],
            usage: usageOf(usage) ?? undefined,
          }),
      };
    },
  };
}

const completionId = (started: Pick<Started, "id"> | undefined) => `chatcmpl-${started?.id}`;

/** Adds a piece of a tool call. Pieces of several calls may alternate. */
function addToolCall(calls: ToolCall[], delta: ToolCallDelta): void {
  const { index, id, name, arguments: text, thoughtSignature } = delta;
  const known = calls[index];
  if (known) {
    known.function.arguments += text;
    return;
  }
  const called = { id, type: "function", function: { name, arguments: text } } as const;
  calls[index] = { ...called, extra_content: extraContent(thoughtSignature) };
}

/**
 * The signature of the thoughts before a call, in the place where Google's format for OpenAI
 * clients has it.
 */
const extraContent = (signature: string | undefined) =>
  signature === undefined ? undefined : { google: { thought_signature: signature } };

/** OpenAI's `usage`. Null if the provider has not reported it. */
function usageOf(usage: TokenUsage | undefined) {
  if (!usage) return null;
  const { inputTokens, outputTokens, cachedInputTokens, cacheWriteTokens, reasoningTokens, cost } =
    usage;
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    prompt_tokens_details: {
      cached_tokens: cachedInputTokens,
      cache_write_tokens: cacheWriteTokens,
    },
    completion_tokens_details: { reasoning_tokens: reasoningTokens },
    cost,
  };
}

/** Owner of aliases, which belong to no provider. */
const OWN = "gatehouse";

/** OpenAI's `model`. */
export const modelJson = ({ model, provider, checkedAt }: ListedModel) => ({
  id: model,
  object: "model",
  created: Number(checkedAt?.seconds ?? 0),
  owned_by: provider || OWN,
});
