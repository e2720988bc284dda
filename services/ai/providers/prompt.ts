import type { Prompt, PromptMessage } from "./provider.ts";

/** The temperature to send: never above what the model takes, none where it refuses any. */
export function temperatureOf({ model, temperature }: Prompt): number | undefined {
  if (temperature === undefined || model.temperature === "refused") return undefined;
  return Math.min(temperature, model.temperature);
}

/** The limit of the reply to send, never above what the model can write; undefined when none was asked for. */
export function outputTokensOf({ model, maxTokens }: Prompt): number | undefined {
  return maxTokens === undefined ? undefined : Math.min(maxTokens, model.outputTokens);
}

/** All system text in one, for the dialects that have a field of its own for it; undefined when there is none. */
export function systemTextOf({ system = "", messages }: Prompt): string | undefined {
  const texts = [system, ...messages.filter(({ role }) => role === "system").map(({ content }) => content)];
  return texts.filter((text) => text !== "").join("\n\n") || undefined;
}

/** The conversation without its system text. */
export function toMessages({ messages }: Prompt): PromptMessage[] {
  return mergeAdjacent(messages.filter(({ role }) => role !== "system"));
}

/** Joins adjacent messages of one role, which some providers refuse, and leaves out empty ones, which say nothing. */
export function mergeAdjacent<Role extends string>(messages: readonly { role: Role; content: string }[]) {
  const turns: { role: Role; content: string }[] = [];
  for (const { role, content } of messages) {
    const last = turns.at(-1);
    if (content === "") continue;
    if (last?.role === role) last.content += `\n\n${content}`;
    else turns.push({ role, content });
  }
  return turns;
}
