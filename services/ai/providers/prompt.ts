import type { Prompt, PromptMessage } from "./provider.ts";

/** Sent first if a conversation begins with an assistant message and the provider requires a user message there. */
const OPENING = "Please continue.";

/** The temperature to send, at most what the model accepts. undefined if the model refuses any. */
export function temperatureOf({ model, temperature }: Prompt): number | undefined {
  if (temperature === undefined || model.temperature === "refused") return undefined;
  return Math.min(temperature, model.temperature);
}

/** The reply limit to send, at most what the model can write. undefined if the request has none. */
export function outputTokensOf({ model, maxTokens }: Prompt): number | undefined {
  return maxTokens === undefined ? undefined : Math.min(maxTokens, model.outputTokens);
}

/** All system text in one, for dialects that have a field for it. undefined if there is none. */
export function systemTextOf({ system = "", messages }: Prompt): string | undefined {
  const texts = [system, ...messages.filter(({ role }) => role === "system").map(({ content }) => content)];
  return texts.filter((text) => text !== "").join("\n\n") || undefined;
}

/** The conversation without its system text. Begins with a user message. */
export function toMessages({ messages }: Prompt): PromptMessage[] {
  return mergeAdjacent(startWithUser(messages.filter(({ role }) => role !== "system")));
}

/** Moves system messages that follow an assistant message to the front: some providers refuse them there. */
export function withSystemFirst(messages: readonly PromptMessage[]): PromptMessage[] {
  const reply = messages.findIndex(({ role, content }) => role === "assistant" && content !== "");
  const isLate = (message: PromptMessage, index: number) => message.role === "system" && reply >= 0 && index > reply;
  return [...messages.filter(isLate), ...messages.filter((message, index) => !isLate(message, index))];
}

/** Puts a short user message before a conversation that begins with an assistant message. */
export function startWithUser(messages: readonly PromptMessage[]): PromptMessage[] {
  const first = messages.findIndex(({ role, content }) => role !== "system" && content !== "");
  if (messages[first]?.role !== "assistant") return [...messages];
  return messages.toSpliced(first, 0, { role: "user", content: OPENING });
}

/** Joins adjacent messages of one role, which some providers refuse, and leaves out empty ones. */
export function mergeAdjacent<Role extends string>(messages: readonly { role: Role; content: string }[]) {
  const merged: { role: Role; content: string }[] = [];
  for (const { role, content } of messages) {
    const last = merged.at(-1);
    if (content === "") continue;
    if (last?.role === role) last.content += `\n\n${content}`;
    else merged.push({ role, content });
  }
  return merged;
}
