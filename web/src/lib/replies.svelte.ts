import {
  CONTINUE,
  type Conversation,
  growingReply,
  isAnswering,
  joined,
  messagesOf,
  type Reply,
  sumOf,
  type Turn,
  titleIn,
  titleRequestOf,
  type Usage,
  wholeWords,
} from "./conversation.ts";
import type { Conversations } from "./conversations.svelte.ts";
import { failureOf } from "./failure.ts";
import { session } from "./session.svelte.ts";

/** Interval at which a reply in progress is stored, in ms. */
const SAVE_MS = 1_000;
/**
 * Interval at which a growing reply is shown, in ms. Models send pieces faster than Markdown can be
 * laid out.
 */
const SHOW_MS = 50;
/** Maximum number of tokens for a title. Reasoning models need more than the title itself. */
const TITLE_TOKENS = 500;

/** The streams of this tab by conversation, one for each. */
const streams = new Map<string, AbortController>();
/** Asks the tab that receives a reply to stop it. */
const stops = new BroadcastChannel("gatehouse-stop");
stops.onmessage = ({ data }: MessageEvent<string>) => streams.get(data)?.abort();

/**
 * Name of the lock held by the tab that receives a reply. Without https, browsers have no locks.
 */
const lockOf = (id: string) => `gatehouse-reply-${id}`;
const locked = async (id: string, work: () => Promise<void>) =>
  await (navigator.locks?.request(lockOf(id), work) ?? work());

/** Stops a reply, whichever tab receives it. */
export function stop(id: string): void {
  const stream = streams.get(id);
  if (stream) stream.abort();
  else stops.postMessage(id);
}

/**
 * Conversations whose reply is received by another tab, or was in progress when the browser ended.
 */
const awaited = new Set<string>();

/**
 * Waits until no tab is receiving a reply, and marks it as interrupted if it was never finished.
 * Without locks, it is marked immediately.
 */
export async function settle(kept: Conversations, id: string): Promise<void> {
  if (streams.has(id) || awaited.has(id)) return;
  awaited.add(id);
  await locked(id, async () => {
    await kept.refresh(id);
    awaited.delete(id);
    const conversation = kept.find(id);
    const reply = conversation && growingReply(conversation);
    if (!reply || streams.has(id)) return;
    const failure = { code: "INTERRUPTED", violations: {}, detail: "" };
    Object.assign(reply, { state: "failed", failure });
    await kept.save(conversation);
  });
}

/**
 * Streams a reply to the last turn of a conversation. Continues while the user is on another page.
 * @param model model of the reply, by default that of the conversation
 */
export async function answer(
  kept: Conversations,
  conversation: Conversation,
  model: { provider: string; model: string },
): Promise<void> {
  const turn = conversation.turns.at(-1);
  if (!turn || isAnswering(conversation)) return;
  const reply = append(turn, { content: "", ...model, at: Date.now(), state: "writing" });
  await stream(kept, conversation, reply, model, []);
}

/**
 * Lets the model continue a reply to the last turn that ended early. The reply grows in place.
 * @param model of the reply
 */
export async function resume(
  kept: Conversations,
  conversation: Conversation,
  reply: Reply,
  model: { provider: string; model: string },
): Promise<void> {
  if (isAnswering(conversation)) return;
  await stream(kept, conversation, reply, model, [
    { role: "assistant", content: wholeWords(reply.content) },
    { role: "user", content: CONTINUE },
  ]);
}

/**
 * Streams text into a reply to the last turn.
 * @param begun the messages that follow the user's message in the request
 */
async function stream(
  kept: Conversations,
  conversation: Conversation,
  reply: Reply,
  { provider, model }: { provider: string; model: string },
  begun: ReturnType<typeof messagesOf>,
): Promise<void> {
  const { id, system, temperature, turns } = conversation;
  const controller = new AbortController();
  session.leaving.addEventListener("abort", () => controller.abort());
  streams.set(id, controller);
  kept.written.add(id);
  const said = turns.at(-1)?.said ?? "";
  const messages = [
    ...(system ? [{ role: "system" as const, content: system }] : []),
    ...messagesOf(turns.slice(0, -1)),
    { role: "user" as const, content: said },
    ...begun,
  ];
  const request = {
    ...{ model: `${provider}/${model}`, messages },
    ...(temperature && { temperature: Number(temperature) }),
  };
  const before = { ...reply };
  Object.assign(reply, { state: "writing" });
  delete reply.failure;
  delete reply.usage; // unknown until all calls have ended
  conversation.updatedAt = Date.now();
  await locked(id, async () => {
    await kept.save(conversation);
    await receive(request, controller, reply, before, () => kept.save(conversation));
    streams.delete(id);
    await kept.save(conversation);
    kept.written.delete(id);
  });
  if (reply.state === "done") await giveTitle(kept, conversation, request.model);
}

/**
 * Asks the model for a short title if the first message is too long to be one. Without an answer,
 * its first words remain the title.
 */
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
    const { leaving: signal } = session; // ends with the session
    for await (const piece of session.api.completions.stream(request, { signal }))
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
  return turn.replies[turn.shown] as Reply; // the reactive object
}

type Request = Parameters<typeof session.api.completions.stream>[0];
/** States of incomplete replies, by finish reason. */
const ENDS: Record<string, Reply["state"]> = { content_filter: "failed", length: "cut" };
/** The failure of a reply that a content filter has cut off. */
const BLOCKED = { code: "PROVIDER_BLOCKED", violations: {}, detail: undefined };

/** What a stream has returned so far. */
type Received = { text: string; reasoning: string; end: string; used?: Usage };

async function read(request: Request, signal: AbortSignal, into: Received): Promise<void> {
  for await (const piece of session.api.completions.stream(request, { signal })) {
    if (piece.kind === "finish") into.end = piece.reason;
    else if (piece.kind === "usage") into.used = tokensOf(piece);
    else into[piece.kind] += piece.text;
  }
}

/** The usage of a reply after another call. A refused call has used nothing. */
function usageAfter(
  { content, usage }: Reply,
  { text, reasoning, used }: Received,
  state: Reply["state"],
): Usage | undefined {
  if (!content) return used;
  const isRefused = state === "failed" && !used && !text && !reasoning;
  return isRefused ? usage : sumOf(usage, used);
}

/** @param before the reply as it was before this call */
async function receive(
  request: Request,
  { signal }: AbortController,
  reply: Reply,
  before: Reply,
  save: () => Promise<void>,
): Promise<void> {
  const received: Received = { text: "", reasoning: "", end: "" };
  const start = wholeWords(before.content);
  const show = () => {
    const { text, reasoning } = received;
    if (text.trim()) reply.content = joined(start, text);
    if (reasoning) reply.reasoning = [before.reasoning, reasoning].filter(Boolean).join("\n\n");
  };
  const timers = [setInterval(show, SHOW_MS), setInterval(save, SAVE_MS)];
  try {
    await read(request, signal, received);
    reply.state = ENDS[received.end] ?? "done";
    if (reply.state === "failed") reply.failure = BLOCKED;
  } catch (thrown) {
    reply.state = signal.aborted ? "stopped" : "failed";
    const { code, violations, detail } = failureOf(thrown);
    if (!signal.aborted) reply.failure = { code, violations, detail };
  } finally {
    timers.forEach(clearInterval);
    show();
    const usage = usageAfter(before, received, reply.state);
    if (usage) reply.usage = usage;
  }
}

const tokensOf = ({ inputTokens, outputTokens, cost }: Usage): Usage => ({
  inputTokens,
  outputTokens,
  ...(cost !== undefined && { cost }),
});
