import {
  type Conversation,
  isAnswering,
  messagesOf,
  type Reply,
  type Turn,
  titleIn,
  titleRequestOf,
} from "./conversation.ts";
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
/** Models that think before they write need more tokens for a title than it has. */
const TITLE_TOKENS = 500;

/** The streams of this tab by conversation: one each, any number at once. */
const streams = new Map<string, AbortController>();
/** Asks the tab in which a reply comes to stop it. */
const stops = new BroadcastChannel("gatehouse-stop");
stops.onmessage = ({ data }: MessageEvent<string>) => streams.get(data)?.abort();

/** Held by the tab in which a reply comes. Without https browsers have no locks. */
const lockOf = (id: string) => `gatehouse-reply-${id}`;
const locked = async (id: string, work: () => Promise<void>) =>
  await (navigator.locks?.request(lockOf(id), work) ?? work());

/** Stops a reply, in whichever tab it comes. */
export function stop(id: string): void {
  const stream = streams.get(id);
  if (stream) stream.abort();
  else stops.postMessage(id);
}

/** Conversations whose reply comes in another tab, or was coming when the browser ended. */
const awaited = new Set<string>();

/**
 * Waits until no tab receives a reply any more, and says so of one that was never finished: it was
 * interrupted. Without locks it counts as interrupted at once.
 */
export async function settle(kept: Conversations, id: string): Promise<void> {
  if (streams.has(id) || awaited.has(id)) return;
  awaited.add(id);
  await locked(id, async () => {
    await kept.refresh(id);
    awaited.delete(id);
    const conversation = kept.find(id);
    if (!conversation || streams.has(id) || !isAnswering(conversation)) return;
    const failure = { code: "INTERRUPTED", violations: {}, detail: "" };
    Object.assign(conversation.turns.at(-1)?.replies.at(-1) ?? {}, { state: "failed", failure });
    await kept.save(conversation);
  });
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
  if (!turn || isAnswering(conversation)) return;
  const controller = new AbortController();
  streams.set(id, controller);
  kept.written.add(id);
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
  await locked(id, async () => {
    await kept.save(conversation);
    await receive(request, controller, reply, () => kept.save(conversation));
    streams.delete(id);
    await kept.save(conversation);
    kept.written.delete(id);
  });
  if (reply.state === "done") await giveTitle(kept, conversation, request.model);
}

/** Asks the model for a short title where the first words are none. They stay the title if it has none. */
async function giveTitle(
  kept: Conversations,
  conversation: Conversation,
  model: string,
): Promise<void> {
  const content = titleRequestOf(conversation);
  const isOwn = session.viewer?.id === kept.userId && kept.find(conversation.id);
  if (!content || !isOwn || conversation.turns.length > 1) return;
  let given = "";
  try {
    const messages = [{ role: "user" as const, content }];
    const request = { model, messages, max_completion_tokens: TITLE_TOKENS };
    for await (const piece of session.api.completions.stream(request))
      if (piece.kind === "text") given += piece.text;
  } catch {
    return;
  }
  const title = titleIn(given);
  if (!title || conversation.title) return;
  conversation.title = title;
  await kept.save(conversation);
}

function append(turn: Turn, reply: Reply): Reply {
  turn.replies.push(reply);
  turn.shown = turn.replies.length - 1;
  return turn.replies[turn.shown] as Reply; // the one that is watched
}

type Request = Parameters<typeof session.api.completions.stream>[0];
/** How a reply ends that is not complete, by the reason that the model gives. */
const ENDS: Record<string, Reply["state"]> = { content_filter: "failed", length: "cut" };
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
    let end = "";
    for await (const piece of session.api.completions.stream(request, { signal })) {
      if (piece.kind === "finish") end = piece.reason;
      else if (piece.kind === "usage") reply.usage = tokensOf(piece);
      else texts[piece.kind] += piece.text;
    }
    reply.state = ENDS[end] ?? "done";
    if (reply.state === "failed") reply.failure = BLOCKED;
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
