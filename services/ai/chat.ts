import type { Message } from "@bufbuild/protobuf";
import type { ChatRequest } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { UserCall } from "../call.ts";
import type { Permit } from "../platform/gate/admission.ts";
import { invalid, ServiceError, type Violation } from "../platform/rpc/errors.ts";
import type { UserPrincipal } from "../principal.ts";
import { isBlank } from "./blank-text.ts";
import type { Catalogue, CatalogueModel, CatalogueProvider } from "./catalogue.ts";
import { instrumentCall } from "./instrument.ts";
import { ProviderError } from "./providers/errors.ts";
import type {
  FinishReason,
  Prompt,
  PromptMessage,
  ReplyEvent,
  Usage,
} from "./providers/provider.ts";
import type { UsageOutcome } from "./usage.ts";

/** A conversation and how to continue it (spec 4.5). Each field has been validated on its own. */
export type Conversation = Omit<ChatRequest, keyof Message>;

export type ChatDeps = Pick<UserCall, "ai" | "principal" | "signal" | "log" | "requestId"> &
  Parameters<typeof instrumentCall>[0];

/** Accounts for the memory of a reply. */
type Memory = Pick<Permit, "reserveBody">;

/**
 * Sends a conversation and waits for the complete reply (spec 2.7).
 * @throws ServiceError VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED, PROVIDER_ERROR
 */
export async function chat(call: ChatDeps, conversation: Conversation, memory?: Memory) {
  const route = resolveRoute(call, conversation, false);
  let content = "";
  let usage: Usage | undefined;
  let finishReason: FinishReason = "stop";
  for await (const event of readReply(call, route, memory, (event) => event)) {
    if (event.kind === "text") content += event.text;
    else if (event.kind === "usage") usage = event.usage;
    else if (event.kind === "finished") finishReason = event.reason;
  }
  return { content, finishReason, usage, model: route.prompt.model.name, provider: route.entry.id };
}

/**
 * Sends a conversation and streams the reply as non-empty chunks of whole characters. The stream
 * ends without an error only if the provider has completed the reply. It fails when the session
 * ends. Nothing is sent before the first pull.
 * @throws ServiceError VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED; while reading PROVIDER_ERROR,
 * UNAUTHENTICATED
 */
export function streamChat(
  call: ChatDeps,
  conversation: Conversation,
  memory?: Memory,
): AsyncIterable<{ chunk: string }> {
  return readReply(call, resolveRoute(call, conversation, true), memory, chunkOf);
}

/** The response message for an event. Streams contain text only. */
const chunkOf = (event: ReplyEvent) => (event.kind === "text" ? { chunk: event.text } : undefined);

/**
 * Reads a reply. The ledger and the metrics observe every event, and usage is recorded however the
 * reply ends.
 * @param outputOf maps an event to what the caller gets; undefined skips it
 */
async function* readReply<Output>(
  call: ChatDeps,
  { provider, entry, prompt }: Route,
  memory: Memory | undefined,
  outputOf: (event: ReplyEvent) => Output | undefined,
): AsyncGenerator<Output, void> {
  const { ai, principal, log, requestId } = call;
  // A reply that is not streamed may outlive the session or the key.
  const watched = prompt.isStream ? ai.credentials.watch(principal, call.signal) : undefined;
  const signal = watched?.signal ?? call.signal;
  const usage = ai.usage.start({
    ...payerOf(principal),
    provider: entry.id,
    model: prompt.model.name,
    inputCharacters: charactersIn(prompt.messages) + (prompt.systemPrompt?.length ?? 0),
  });
  const measurement = instrumentCall(call, entry.vendor, prompt);
  let outcome: UsageOutcome = "cancelled"; // if the client disconnects
  const reserve = (bytes: number) => reserveReply(memory, bytes);
  try {
    for await (const event of provider(prompt, signal, reserve)) {
      usage.observe(event);
      measurement.observe(event);
      const output = outputOf(event);
      if (output !== undefined) yield output;
    }
    outcome = "completed";
  } catch (thrown) {
    if (signal.aborted) throw thrown;
    outcome = thrown instanceof ProviderError ? thrown.kind : "failed";
    if (!(thrown instanceof ProviderError)) throw thrown;
    const message = `The AI provider ${entry.id} failed: ${thrown.kind}.`;
    log.warn({ requestId, detail: thrown.facts.detail }, message);
    throw new ServiceError(Reason.PROVIDER_ERROR, message);
  } finally {
    watched?.end();
    measurement.end(usage.finish(outcome));
  }
}

/** Who pays for a call. Under impersonation it is the administrator. */
const payerOf = (principal: UserPrincipal) => ({
  userId: principal.actorId ?? principal.user.id,
  apiKeyId: principal.kind === "api-key" ? principal.key.id : undefined,
});

/** @throws ProviderError if there is not enough memory left for the reply */
function reserveReply(memory: Memory | undefined, bytes: number): void {
  try {
    memory?.reserveBody(bytes, "reply");
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ProviderError("reply too large", { detail: "no memory left" });
  }
}

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
  const models = entry ? usableModels(entry, principal) : [];
  return {
    entry,
    models,
    model: model === undefined ? models[0] : models.find(({ name }) => name === model),
  };
}

/** The models of a provider that a caller may use: all, unless an API key names some. */
export function usableModels(
  { id, models }: CatalogueProvider,
  principal: UserPrincipal | undefined,
): readonly CatalogueModel[] {
  const named = principal?.kind === "api-key" ? principal.key.models : null;
  if (!named) return models;
  return models.filter(({ name }) => named.includes(name) || named.includes(`${id}/${name}`));
}

type Route = ReturnType<typeof resolveRoute>;

/**
 * Finds the provider and the model of a conversation that `checkConversation` has accepted.
 * @throws ServiceError VALIDATION_FAILED for a model that the API key may not use,
 * PROVIDER_NOT_CONFIGURED
 */
function resolveRoute(
  { ai: { catalogue, providers }, principal }: Pick<UserCall, "ai" | "principal">,
  conversation: Conversation,
  isStream: boolean,
) {
  const { entry, models, model } = findTarget(catalogue, conversation, principal);
  if (!entry) throw new Error("the conversation has not been checked");
  if (models.length === 0) throw invalid("provider", "has no model that this API key may use");
  if (!model) throw invalid("model", oneOf(models.map(({ name }) => name)));
  const provider = providers.byId.get(entry.id);
  if (!provider) {
    const message = `The AI provider ${entry.id} is not configured: ${entry.keyVariable} is missing.`;
    throw new ServiceError(Reason.PROVIDER_NOT_CONFIGURED, message);
  }
  const prompt: Prompt = {
    ...conversation,
    messages: conversation.messages as PromptMessage[],
    model,
    isStream,
  };
  return { provider, entry, prompt };
}

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
        ? [{ field: "model", message: oneOf(entry.models.map(({ name }) => name)) }]
        : []),
      ...(fault ? [{ field: "messages", message: fault }] : []),
    ];
  };

const oneOf = (names: string[]) => `must be one of ${names.join(", ")}`;

/**
 * Checks the messages as a whole. Unknown roles have violations of their own.
 * @returns what is wrong, if anything
 */
function faultIn(messages: Conversation["messages"]): string | undefined {
  if (charactersIn(messages) > MAX_CHARACTERS)
    return `must contain at most ${MAX_CHARACTERS} characters`;
  const isOther = (role: string) => role === "assistant" || role === "system";
  if (messages.every(({ role, content }) => isOther(role) || isBlank(content)))
    return "must contain a message of the user that is not blank";
  return undefined;
}

/**
 * Counts code points, as the constraints of single fields do: a surrogate pair is one character.
 * For text that is too long in any case, counts UTF-16 code units, which is faster.
 */
function charactersIn(messages: readonly { content: string }[]): number {
  const units = messages.reduce((sum, { content }) => sum + content.length, 0);
  if (units > 2 * MAX_CHARACTERS) return units;
  return messages.reduce(
    (sum, { content }) => sum + content.replace(/[\ud800-\udbff]/g, "").length,
    0,
  );
}
