import type { Message } from "@bufbuild/protobuf";
import type { ChatRequest } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { UserCall } from "../call.ts";
import { invalid, type Violation } from "../platform/rpc/errors.ts";
import type { UserPrincipal } from "../principal.ts";
import { isBlank } from "./blank-text.ts";
import { type Catalogue, type CatalogueProvider, isEmbedding } from "./catalogue.ts";
import { charactersIn } from "./characters.ts";
import { chatModels, EMBEDDINGS_ONLY } from "./models.ts";
import type {
  FinishReason,
  Prompt,
  PromptMessage,
  ReplyEvent,
  Usage,
} from "./providers/provider.ts";
import {
  type ReplyDeps,
  type ReplyView,
  type Response,
  type Route,
  readReply,
  requireProvider,
} from "./read-reply.ts";

/** A conversation and how to continue it. Each field has been validated on its own. */
export type Conversation = Omit<ChatRequest, keyof Message>;

/**
 * Sends a conversation and waits for the complete reply.
 * @throws ServiceError VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED, PROVIDER_ERROR
 */
export async function chat(call: ReplyDeps, conversation: Conversation, response: Response) {
  const route = resolveRoute(call, conversation, false);
  let content = "";
  let usage: Usage | undefined;
  let finishReason: FinishReason = "stop";
  for await (const event of readReply(call, route, response, EVENTS)) {
    if (event.kind === "text") content += event.text;
    else if (event.kind === "usage") usage = event.usage;
    else if (event.kind === "finished") finishReason = event.reason;
  }
  const [{ entry, prompt }] = route.targets;
  return { content, finishReason, usage, model: prompt.model.name, provider: entry.id };
}

/**
 * Sends a conversation and streams the reply as non-empty chunks of whole characters. The stream
 * ends without an error only if the provider has completed the reply. It fails when the session
 * ends. Nothing is sent before the first pull.
 * @throws ServiceError VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED; while reading PROVIDER_ERROR,
 * UNAUTHENTICATED
 */
export function streamChat(
  call: ReplyDeps,
  conversation: Conversation,
  response: Response,
): AsyncIterable<{ chunk: string }> {
  return readReply(call, resolveRoute(call, conversation, true), response, CHUNKS);
}

const EVENTS: ReplyView<ReplyEvent> = { outputsOf: (event) => [event] };

/** Streams contain text only. */
const CHUNKS: ReplyView<{ chunk: string }> = {
  outputsOf: (event) => (event.kind === "text" ? [{ chunk: event.text }] : []),
};

/**
 * Finds a provider by its public id and a model by its public name. The default is the first model
 * that the caller may use.
 */
export function findTarget(
  catalogue: Catalogue,
  { provider, model }: Pick<Conversation, "provider" | "model">,
  principal?: UserPrincipal,
) {
  const entry = catalogue.providers.find(({ id }) => id === provider);
  const models = entry ? chatModels(entry, principal) : [];
  return {
    entry,
    models,
    model: model === undefined ? models[0] : models.find(({ name }) => name === model),
  };
}

/**
 * Finds the provider and the model of a conversation that `checkConversation` has accepted.
 * @throws ServiceError VALIDATION_FAILED for a model that the API key may not use,
 * PROVIDER_NOT_CONFIGURED
 */
function resolveRoute(
  { ai, principal }: Pick<UserCall, "ai" | "principal">,
  conversation: Conversation,
  isStream: boolean,
): Route {
  const { entry, models, model } = findTarget(ai.catalogue, conversation, principal);
  if (!entry) throw new Error("the conversation has not been checked");
  if (models.length === 0) throw invalid("provider", "has no model that this API key may use");
  if (!model) throw invalid("model", oneOf(models.map(({ name }) => name)));
  const { messages, systemPrompt, maxTokens, temperature } = conversation;
  const prompt: Prompt = {
    model,
    isStream,
    messages: messages.map(promptMessageOf),
    systemPrompt,
    maxTokens,
    temperature,
  };
  const characters =
    charactersIn(contentsOf(messages), MAX_CHARACTERS) + (systemPrompt?.length ?? 0);
  requireProvider(ai, entry);
  return { targets: [{ entry, prompt }], characters };
}

const promptMessageOf = ({ role, content }: Conversation["messages"][number]): PromptMessage => ({
  role: role as PromptMessage["role"],
  parts: [{ text: content }],
});

const contentsOf = (messages: Conversation["messages"]) => messages.map(({ content }) => content);

/** Maximum size of all messages together, in characters. */
const MAX_CHARACTERS = 262_144;

/** Checks a conversation against the catalogue, and its messages as a whole. */
export const checkConversation =
  (catalogue: Catalogue) =>
  (conversation: Conversation): Violation[] => {
    const { entry, model } = findTarget(catalogue, conversation);
    const fault = faultIn(conversation.messages);
    return [
      ...(entry
        ? []
        : [{ field: "provider", message: oneOf(catalogue.providers.map(({ id }) => id)) }]),
      ...(entry && !model
        ? [{ field: "model", message: modelFault(entry, conversation.model) }]
        : []),
      ...(fault ? [{ field: "messages", message: fault }] : []),
    ];
  };

function modelFault(entry: CatalogueProvider, named: string | undefined): string {
  const names = chatModels(entry).map(({ name }) => name);
  const isForEmbeddings = entry.models.some((each) => each.name === named && isEmbedding(each));
  if (isForEmbeddings) return EMBEDDINGS_ONLY;
  return names.length === 0
    ? "must be a model for conversations, and this provider has none"
    : oneOf(names);
}

const oneOf = (names: string[]) => `must be one of ${names.join(", ")}`;

/**
 * Checks the messages as a whole. Unknown roles have their own violations.
 * @returns what is wrong, if anything
 */
function faultIn(messages: Conversation["messages"]): string | undefined {
  if (charactersIn(contentsOf(messages), MAX_CHARACTERS) > MAX_CHARACTERS)
    return `must contain at most ${MAX_CHARACTERS} characters`;
  const isOther = (role: string) => role === "assistant" || role === "system";
  if (messages.every(({ role, content }) => isOther(role) || isBlank(content)))
    return "must contain a message of the role user that is not blank";
  return undefined;
}
