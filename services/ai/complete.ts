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
import { invalidFields } from "../platform/rpc/errors.ts";
import { parseExactly } from "../platform/rpc/exact-json.ts";
import { isBlank } from "./blank-text.ts";
import { charactersIn } from "./characters.ts";
import { MAX_CHARACTERS, textsOf } from "./check-completion.ts";
import { adaptRequest } from "./completion-fields.ts";
import { ableTargets, findAlias, findModel, type Target } from "./models.ts";
import { readCallId } from "./providers/call-ids.ts";
import type {
  Prompt,
  PromptFormat,
  PromptMessage,
  PromptPart,
  PromptTool,
  PromptToolCall,
  ReplyEvent,
} from "./providers/provider.ts";
import {
  costIn,
  type ReplyDeps,
  type ReplyView,
  type Response,
  type Route,
  readReply,
  requireProvider,
  startedOf,
} from "./read-reply.ts";
import { mapTargets, type Targets } from "./targets.ts";

type EventInit = MessageInitShape<typeof CompleteEventSchema>;
type FinishedInit = MessageInitShape<typeof FinishedSchema>;

/**
 * Continues a conversation. Nothing is sent before the first pull of the events. They end without
 * an error only if the provider has completed the reply, or a filter has interrupted it.
 * @param reportIgnored receives the names of the fields that have no effect, if any. Those of an
 * alias depend on the model that replies, and are in `started`.
 * @throws ServiceError NOT_FOUND, VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED; while reading
 * PROVIDER_ERROR, UNAUTHENTICATED
 */
export function complete(
  call: ReplyDeps,
  request: CompleteRequest,
  reportIgnored: (names: readonly string[]) => void,
  response: Response,
): AsyncIterable<EventInit> {
  const { alias, targets: found } = findTargets(call, request);
  const targets = mapTargets(found, (target) => adapted(request, target));
  const [{ ignored }] = targets;
  if (alias === undefined && ignored.length > 0) reportIgnored(ignored);
  const messages = promptMessagesOf(request.messages);
  const route: Route = {
    targets: mapTargets(targets, ({ entry, model, fields, ignored }) => ({
      ...{ entry, ignored },
      prompt: { ...promptOf(request, messages, model), ...fields },
    })),
    alias,
    characters: charactersIn(textsOf(request), MAX_CHARACTERS),
  };
  return readReply(call, route, response, createView());
}

/**
 * The models that a request may go to, in the order in which they are tried.
 * @throws ServiceError NOT_FOUND, PROVIDER_NOT_CONFIGURED; VALIDATION_FAILED if no model of an
 * alias can take it
 */
function findTargets(
  call: ReplyDeps,
  request: CompleteRequest,
): { alias?: string; targets: Targets<Target> } {
  const alias = findAlias(call, request.model);
  if (alias) {
    const violationsOf = (target: Target) => adaptRequest(request, target).violations;
    return { alias: alias.name, targets: ableTargets(call, alias.targets, violationsOf) };
  }
  const target = findModel(call, request.model);
  requireProvider(call.ai, target.entry);
  return { targets: [target] };
}

/** A model, and the fields of a request that it supports. */
type AdaptedTarget = Target & {
  ignored: readonly string[];
  fields: ReturnType<typeof adaptRequest>["fields"];
};
/**
 * Adapts a request to a model.
 * @throws ServiceError VALIDATION_FAILED if the model can't take it
 */
function adapted(request: CompleteRequest, target: Target): AdaptedTarget {
  const { violations, ignored, fields } = adaptRequest(request, target);
  if (violations.length > 0) throw invalidFields(violations);
  return { ...target, ignored: [...new Set([...request.ignored, ...ignored])], fields };
}

/** The events that the caller of a completion receives. */
function createView(): ReplyView<EventInit> {
  let hasBegun = false;
  let usage: FinishedInit["usage"];
  const finished = (finishReason: string): EventInit => ({
    event: { case: "finished", value: { finishReason, ...(usage && { usage }) } },
  });
  return {
    outputsOf(event, call, target) {
      if (event.kind === "usage") usage = { ...event.usage, ...event.details, ...costIn(call) };
      const output = event.kind === "finished" ? finished(event.reason) : pieceOf(event);
      if (!output) return [];
      if (hasBegun) return [output];
      hasBegun = true;
      return [{ event: { case: "started", value: startedOf(call.id, target) } }, output];
    },
    blocked: () => (hasBegun ? finished("content_filter") : undefined),
  };
}

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
function promptOf(
  request: CompleteRequest,
  messages: readonly PromptMessage[],
  model: Target["model"],
): Prompt {
  const { stream, maxTokens, stop, tools, toolChoice, responseFormat } = request;
  return {
    model,
    isStream: stream,
    messages,
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
