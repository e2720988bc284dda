import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  CompleteEventSchema,
  CompleteRequest,
  FinishedSchema,
  Message,
  ResponseFormat,
  Tool,
  ToolCall,
} from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { decimalOf } from "../platform/money.ts";
import { invalidFields } from "../platform/rpc/errors.ts";
import { parseExactly } from "../platform/rpc/exact-json.ts";
import { isBlank } from "./blank-text.ts";
import { charactersIn } from "./characters.ts";
import { MAX_CHARACTERS, textsOf } from "./check-completion.ts";
import { adaptRequest } from "./completion-fields.ts";
import { findModel, type Target } from "./models.ts";
import { costOf } from "./price.ts";
import { readCallId } from "./providers/call-ids.ts";
import type {
  Prompt,
  PromptFormat,
  PromptMessage,
  PromptPart,
  PromptTool,
  PromptToolCall,
  ReplyEvent,
  Usage,
  UsageDetails,
} from "./providers/provider.ts";
import {
  type ReplyDeps,
  type ReplyView,
  type Response,
  readReply,
  requireProvider,
} from "./read-reply.ts";

type EventInit = MessageInitShape<typeof CompleteEventSchema>;
type FinishedInit = MessageInitShape<typeof FinishedSchema>;

/**
 * Continues a conversation. Nothing is sent before the first pull of the events. They end without an error only
 * if the provider has completed the reply, or a filter has cut it off.
 * @param reportIgnored is told the names of the fields that have no effect, if any
 * @throws ServiceError NOT_FOUND, VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED; while reading PROVIDER_ERROR,
 * UNAUTHENTICATED
 */
export function complete(
  call: ReplyDeps,
  request: CompleteRequest,
  reportIgnored: (names: readonly string[]) => void,
  response: Response,
): AsyncIterable<EventInit> {
  const target = findModel(call, request.model);
  const { entry } = target;
  const provider = requireProvider(call.ai, entry);
  const { violations, ignored, fields } = adaptRequest(request, target);
  if (violations.length > 0) throw invalidFields(violations);
  const names = [...new Set([...request.ignored, ...ignored])];
  if (names.length > 0) reportIgnored(names);
  const prompt = { ...promptOf(request, target), ...fields };
  const characters = charactersIn(textsOf(request), MAX_CHARACTERS);
  return readReply(call, { provider, entry, prompt, characters }, response, viewOf(target));
}

/** What the caller of a completion gets. */
function viewOf({ entry, model }: Target): ReplyView<EventInit> {
  let hasBegun = false;
  let usage: FinishedInit["usage"];
  const finished = (finishReason: string): EventInit => ({
    event: { case: "finished", value: { finishReason, ...(usage && { usage }) } },
  });
  return {
    outputsOf(event, id) {
      if (event.kind === "usage") usage = tokenUsageOf({ ...event.usage, ...event.details }, model);
      const output = event.kind === "finished" ? finished(event.reason) : pieceOf(event);
      if (!output) return [];
      if (hasBegun) return [output];
      hasBegun = true;
      const started = { id, provider: entry.id, model: model.name };
      return [{ event: { case: "started", value: started } }, output];
    },
    blocked: () => (hasBegun ? finished("content_filter") : undefined),
  };
}

/** The tokens of a reply, with their cost if the model has a price. */
const tokenUsageOf = (tokens: Usage & UsageDetails, { price }: Target["model"]) => ({
  ...tokens,
  ...(price && { cost: decimalOf(costOf(price, tokens)) }),
});

function pieceOf(event: ReplyEvent): EventInit | undefined {
  if (event.kind === "text") return { event: { case: "text", value: event.text } };
  if (event.kind === "reasoning") return { event: { case: "reasoning", value: event.text } };
  if (event.kind !== "tool-call") return undefined;
  const { index, id = "", name = "", arguments: json, signature } = event;
  const call = { index, id, name, arguments: json };
  const value = signature === undefined ? call : { ...call, thoughtSignature: signature };
  return { event: { case: "toolCall", value } };
}

/** The prompt of a request, apart from the fields that `adaptRequest` decides. */
function promptOf(request: CompleteRequest, { model }: Target): Prompt {
  const { messages, stream, maxTokens, stop, tools, toolChoice, responseFormat } = request;
  return {
    model,
    isStream: stream,
    messages: promptMessagesOf(messages),
    maxTokens,
    stop,
    tools: tools.map(toolOf),
    toolChoice: toolChoice as Prompt["toolChoice"],
    format: responseFormat && formatOf(responseFormat),
    showsReasoning: true,
  };
}

function promptMessagesOf(messages: readonly Message[]): PromptMessage[] {
  const calls = new Map<string, PromptToolCall>();
  return messages.map(({ role, parts, toolCalls, toolCallId }) => {
    const called = toolCalls.map(callOf);
    for (const call of called) calls.set(call.id, call);
    const resultOf = role === "tool" ? calls.get(readCallId(toolCallId).id) : undefined;
    return {
      role: role as PromptMessage["role"],
      parts: parts.flatMap(partOf),
      ...(called.length > 0 && { toolCalls: called }),
      ...(resultOf && { resultOf }),
    };
  });
}

function partOf({ part }: Message["parts"][number]): PromptPart[] {
  if (part.case === "text") return [{ text: part.value }];
  return part.case === "image" ? [{ image: part.value }] : [];
}

function callOf({ id: given, name, arguments: json, thoughtSignature }: ToolCall): PromptToolCall {
  const { id, signature } = readCallId(given);
  return {
    id,
    name,
    arguments: isBlank(json) ? "{}" : json,
    signature: thoughtSignature ?? signature,
  };
}

const toolOf = ({ name, description, parametersJson, strict }: Tool): PromptTool => ({
  name,
  description,
  parameters: parametersJson === undefined ? undefined : (parseExactly(parametersJson) as object),
  strict,
});

function formatOf({
  type,
  name,
  description,
  schemaJson,
  strict,
}: ResponseFormat): PromptFormat | undefined {
  if (type === "text") return undefined;
  if (type === "json_object") return { type };
  return {
    type: "json_schema",
    name,
    description,
    schema: parseExactly(schemaJson) as object,
    strict,
  };
}
