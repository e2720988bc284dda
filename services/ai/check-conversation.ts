import type { Violation } from "../platform/errors.ts";
import { type Catalogue, findModel, findProvider } from "./catalogue.ts";

/** A conversation and how to continue it (spec 4.5). Each field has been validated by itself. */
export type Conversation = {
  provider: string;
  model?: string | undefined;
  messages: readonly { role: string; content: string }[];
  maxTokens?: number | undefined;
  temperature?: number | undefined;
  systemPrompt?: string | undefined;
};

/** Limit of all messages together, in characters. */
const MAX_CHARACTERS = 262_144;

/** Provider and model of a conversation. The request can choose only what the catalogue lists. */
export function findTarget(catalogue: Catalogue, { provider, model }: Pick<Conversation, "provider" | "model">) {
  const entry = findProvider(catalogue, provider);
  return { entry, model: entry && findModel(entry, model) };
}

/** Checks a conversation against the catalogue, and its messages as a whole. */
export function checkConversation(catalogue: Catalogue, conversation: Conversation): Violation[] {
  const { entry, model } = findTarget(catalogue, conversation);
  const fault = faultIn(conversation.messages);
  return [
    ...(entry ? [] : [{ field: "provider", message: oneOf(catalogue.providers.map(({ id }) => id)) }]),
    ...(entry && !model ? [{ field: "model", message: oneOf(entry.models.map(({ name }) => name)) }] : []),
    ...(fault ? [{ field: "messages", message: fault }] : []),
  ];
}

const oneOf = (names: string[]) => `must be one of ${names.join(", ")}`;

/** Checks the messages as a whole. A role that is none has a violation of its own. @returns what is wrong */
function faultIn(messages: Conversation["messages"]): string | undefined {
  if (charactersIn(messages) > MAX_CHARACTERS && codePointsIn(messages) > MAX_CHARACTERS)
    return `must contain at most ${MAX_CHARACTERS} characters`;
  if (messages.every(({ role, content }) => role === "assistant" || role === "system" || content === ""))
    return "must contain a message of the user";
  return undefined;
}

/** UTF-16 units: quick to count, and never fewer than the code points. */
export function charactersIn(messages: readonly { content: string }[]): number {
  return messages.reduce((sum, { content }) => sum + content.length, 0);
}

/** Code points, as in the constraints of single fields: a surrogate pair is one character. */
function codePointsIn(messages: readonly { content: string }[]): number {
  return messages.reduce((sum, { content }) => sum + content.replace(/[\ud800-\udbff]/g, "").length, 0);
}
