import type { MessageInitShape } from "@bufbuild/protobuf";
import type { RelayEventSchema } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { invalidFields, type Violation } from "../../platform/rpc/errors.ts";
import { isEmbedding } from "../catalogue.ts";
import { ableTargets, EMBEDDINGS_ONLY, findAlias, findModel, type Target } from "../models.ts";
import type { RelayApi, RelayPrompt } from "../providers/provider.ts";
import { RELAY_APIS } from "../providers/relay-apis.ts";
import {
  costIn,
  failureOf,
  type ReplyDeps,
  type ReplyView,
  type Response,
  type RouteTarget,
  readReply,
  requireProvider,
  startedOf,
} from "../read-reply.ts";
import { mapTargets, type Targets } from "../targets.ts";
import { withMembers } from "./json-members.ts";
import { maxTokensFieldOf, type RelayBody, readRelayBody } from "./relay-body.ts";

type EventInit = MessageInitShape<typeof RelayEventSchema>;
type UsageInit = Extract<EventInit["event"], { case: "finished" }>["value"]["usage"];

/** A request of a foreign API: its body and its headers. */
export type RelayRequest = {
  body: Uint8Array;
  /** Version of Anthropic's API. */
  version?: string | undefined;
  /** Values of `anthropic-beta`. */
  betas?: readonly string[];
};

/**
 * Passes a request on to a model of the dialect of its API, and the reply back, both unchanged
 * except for the name of the model. Nothing is sent before the first pull of the events. They end
 * without an error only if the reply is complete.
 * @throws ServiceError MALFORMED_REQUEST, NOT_FOUND, VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED;
 * while reading PROVIDER_ERROR, UNAUTHENTICATED
 */
export function relay(
  call: ReplyDeps,
  api: RelayApi,
  request: RelayRequest,
  response: Response,
): AsyncIterable<EventInit> {
  const body = readRelayBody(api, request.body);
  const { alias, targets } = findTargets(call, api, body.model);
  const route = {
    targets: mapTargets(targets, (target) => routeTarget(api, body, request, target)),
    alias,
    characters: body.characters,
  };
  return readReply(call, route, response, createView());
}

/**
 * Passes on a request to count the tokens of a conversation. It is free and not recorded as usage.
 * @returns the answer of the provider, a JSON object, and the names of fields that had no effect
 * @throws ServiceError MALFORMED_REQUEST, NOT_FOUND, VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED,
 * PROVIDER_ERROR
 */
export async function countTokens(
  call: ReplyDeps,
  request: RelayRequest,
): Promise<{ answer: string; ignored: readonly string[] }> {
  const body = readRelayBody("count_tokens", request.body);
  const { targets: found } = findTargets(call, "count_tokens", body.model);
  const targets = mapTargets(found, (target) => routeTarget("count_tokens", body, request, target));
  const prompts = mapTargets(targets, ({ entry, prompt }) => ({ provider: entry.id, prompt }));
  let current = targets[0];
  const onTarget = (index: number) => {
    current = targets[index] ?? current;
  };
  try {
    const answer = await call.ai.providers.answer(prompts, call.signal, onTarget);
    return { answer, ignored: current.ignored };
  } catch (thrown) {
    if (call.signal.aborted) throw thrown;
    throw failureOf(thrown, call, current.entry);
  }
}

/**
 * The models that a request may go to, in the order in which they are tried.
 * @throws ServiceError NOT_FOUND, PROVIDER_NOT_CONFIGURED; VALIDATION_FAILED if none has the API
 */
function findTargets(
  call: ReplyDeps,
  api: RelayApi,
  name: string,
): { alias?: string; targets: Targets<Target> } {
  const { dialect } = RELAY_APIS[api];
  const refusal = (message: string) => [{ field: "model", message, unsupported: true }];
  const violationsOf = ({ entry, model }: Target): Violation[] => {
    if (isEmbedding(model)) return refusal(EMBEDDINGS_ONLY);
    return entry.dialect === dialect ? [] : refusal(OTHER_API);
  };
  const alias = findAlias(call, name);
  if (alias) return { alias: alias.name, targets: ableTargets(call, alias.targets, violationsOf) };
  const target = findModel(call, name);
  const violations = violationsOf(target);
  if (violations.length > 0) throw invalidFields(violations);
  requireProvider(call.ai, target.entry);
  return { targets: [target] };
}

const OTHER_API = "is not a model with this API: use POST /v1/chat/completions";

function routeTarget(
  api: RelayApi,
  body: RelayBody,
  request: RelayRequest,
  { entry, model }: Target,
): RouteTarget & { prompt: RelayPrompt; ignored: readonly string[] } {
  const ignored = (request.betas ?? [])
    .filter((beta) => !entry.betas?.includes(beta))
    .map((beta) => `anthropic-beta.${beta}`);
  return {
    ...{ entry, ignored },
    prompt: {
      model,
      isStream: body.isStream,
      ...(body.maxTokens !== undefined && { maxTokens: body.maxTokens }),
      relay: {
        api,
        bytes: Buffer.byteLength(body.text),
        images: body.images,
        files: body.files,
        fileCharacters: body.fileCharacters,
        bodyFor: (prompt) => bodyFor(api, body, prompt),
        headers: headersOf(api, request, entry.betas ?? []),
      },
    },
  };
}

/**
 * The body with the provider's name of the model, and the token maximum lowered to that of the
 * model.
 */
function bodyFor(
  api: RelayApi,
  { text, maxTokens: given }: RelayBody,
  { model, maxTokens: allowed }: Pick<RelayPrompt, "model" | "maxTokens">,
): string {
  const field = maxTokensFieldOf(api);
  const limits = [given, allowed].filter((limit) => limit !== undefined);
  const most = Math.min(...limits, model.outputTokens);
  const isLowered = limits.length > 0 && most !== given;
  return withMembers(text, {
    model: JSON.stringify(model.upstream),
    ...(field !== undefined && isLowered && { [field]: String(most) }),
    ...(api === "responses" && { store: "false" }),
  });
}

/** The version if the request does not specify one. */
const VERSION = "2023-06-01";

function headersOf(
  api: RelayApi,
  { version, betas = [] }: RelayRequest,
  allowed: readonly string[],
): Record<string, string> {
  if (api === "responses") return {};
  const passed = betas.filter((beta) => allowed.includes(beta));
  return {
    "anthropic-version": version || VERSION,
    ...(passed.length > 0 && { "anthropic-beta": passed.join(",") }),
  };
}

/** The events that the caller of a relay receives. */
function createView(): ReplyView<EventInit> {
  let hasBegun = false;
  let usage: UsageInit;
  const finished = (finishReason: string): EventInit => ({
    event: { case: "finished", value: { finishReason, ...(usage && { usage }) } },
  });
  return {
    outputsOf(event, call, target) {
      if (event.kind === "usage") usage = { ...event.usage, ...event.details, ...costIn(call) };
      if (event.kind === "finished") return [finished(event.reason)];
      if (event.kind !== "relayed") return [];
      const data: EventInit = { event: { case: "data", value: event.data } };
      if (hasBegun) return [data];
      hasBegun = true;
      return [{ event: { case: "started", value: startedOf(call.id, target) } }, data];
    },
    blocked: () => (hasBegun ? finished("content_filter") : undefined),
  };
}
