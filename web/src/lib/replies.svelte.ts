import { SvelteMap } from "svelte/reactivity";
import { type Conversation, messagesOf, type Reply, type Turn } from "./conversation.ts";
import type { Conversations } from "./conversations.svelte.ts";
import { failureOf } from "./failure.ts";
import { session } from "./session.svelte.ts";

/** A reply that comes is kept this often, in ms. */
const SAVE_MS = 1_000;
/**
 * A growing reply is shown this often, in ms: models send pieces faster than Markdown can be laid
 * out again.
 */
const SHOW_MS = 50;

/** The streams of this tab by conversation: one each, any number at once. */
const streams = new SvelteMap<string, AbortController>();
const lockOf = (id: string) => `gatehouse-reply-${id}`;

/** Whether a reply comes in this tab. */
export const isAnswering = (id: string): boolean => streams.has(id);

export const stop = (id: string): void => streams.get(id)?.abort();

/**
 * Whether a reply that was never finished comes in another tab. Without https browsers have no
 * locks: then it counts as interrupted.
 */
export async function isAnsweredElsewhere(id: string): Promise<boolean> {
  const held = (await navigator.locks?.query())?.held ?? [];
  return held.some(({ name }) => name === lockOf(id));
}

/**
 * Streams a reply to the last turn of a conversation. It goes on when the person looks at another
 * page.
 * @param model of the reply, by default that of the conversation
 */
export async function answer(
  kept: Conversations,
  conversation: Conversation,
  model: { provider: string; model: string },
): Promise<void> {
  const { id, system, temperature, turns } = conversation;
  const turn = turns.at(-1);
  if (!turn || streams.has(id)) return;
  const controller = new AbortController();
  streams.set(id, controller);
  const messages = [
    ...(system ? [{ role: "system" as const, content: system }] : []),
    ...messagesOf(turns.slice(0, -1)),
    { role: "user" as const, content: turn.said },
  ];
  const request = {
    ...{ model: `${model.provider}/${model.model}`, messages },
    ...(temperature && { temperature: Number(temperature) }),
  };
  const reply = append(turn, { content: "", ...model, at: Date.now(), state: "writing" });
  conversation.updatedAt = Date.now();
  const work = async () => {
    await kept.save(conversation);
    await receive(request, controller, reply, () => kept.save(conversation));
    streams.delete(id);
    await kept.save(conversation);
  };
  await (navigator.locks?.request(lockOf(id), work) ?? work());
}

function append(turn: Turn, reply: Reply): Reply {
  turn.replies.push(reply);
  turn.shown = turn.replies.length - 1;
  return turn.replies[turn.shown] as Reply; // the one that is watched
}

type Request = Parameters<typeof session.api.completions.stream>[0];
/** What a filter has cut off is incomplete. */
const BLOCKED = { code: "PROVIDER_BLOCKED", violations: {}, detail: undefined };

async function receive(
  request: Request,
  { signal }: AbortController,
  reply: Reply,
  save: () => Promise<void>,
): Promise<void> {
  const texts = { text: "", reasoning: "" };
  const show = () => {
    reply.content = texts.text;
    if (texts.reasoning) reply.reasoning = texts.reasoning;
  };
  const timers = [setInterval(show, SHOW_MS), setInterval(save, SAVE_MS)];
  try {
    let isBlocked = false;
    for await (const piece of session.api.completions.stream(request, { signal })) {
      if (piece.kind === "finish") isBlocked = piece.reason === "content_filter";
      else if (piece.kind === "usage") reply.usage = tokensOf(piece);
      else texts[piece.kind] += piece.text;
    }
    reply.state = isBlocked ? "failed" : "done";
    if (isBlocked) reply.failure = BLOCKED;
  } catch (thrown) {
    reply.state = signal.aborted ? "stopped" : "failed";
    const { code, violations, detail } = failureOf(thrown);
    if (!signal.aborted) reply.failure = { code, violations, detail };
  } finally {
    timers.forEach(clearInterval);
    show();
  }
}

const tokensOf = ({ inputTokens, outputTokens, cost }: NonNullable<Reply["usage"]>) => ({
  inputTokens,
  outputTokens,
  ...(cost !== undefined && { cost }),
});
