/** A reply of a model. It is incomplete because of a failure, or because the person stopped it. */
export type Reply = {
  content: string;
  /** What the model has thought before, if it tells. */
  reasoning?: string;
  /** Tokens, once it is complete, if the provider counts them, and their cost, if the model has a price. */
  usage?: { inputTokens: number; outputTokens: number; cost?: string };
  provider: string;
  model: string;
  /** When it was asked for, in ms. */
  at: number;
  /** How it ended: `cut` at the maximum of its tokens; `writing` while it comes, and after a crash. */
  state: "writing" | "done" | "cut" | "stopped" | "failed";
  failure?: { code: string; violations: Record<string, string>; detail: string | undefined };
};

/** What the person said, and the replies to it: the last one counts, earlier ones stay reachable. */
export type Turn = { said: string; at: number; replies: Reply[]; shown: number };

/** A conversation and its settings. An empty text stands for the default. */
export type Conversation = {
  id: string;
  /** Given by the person or the model; the first words otherwise. */
  title: string;
  provider: string;
  model: string;
  system: string;
  temperature: string;
  isPinned: boolean;
  updatedAt: number;
  turns: Turn[];
};

const TITLE_LENGTH = 60;
/** A first message that is longer is no title: so many characters fit in the list. */
const SHORT_LENGTH = 30;
/** A model sees this much of the first message to give a title, in characters. */
const EXCERPT_LENGTH = 1_000;

const firstWords = ({ turns }: Conversation) => (turns[0]?.said ?? "").replace(/\s+/g, " ").trim();

export const titleOf = (conversation: Conversation): string =>
  conversation.title || shorten(firstWords(conversation));

/** Cuts a text between two words. */
const shorten = (text: string) =>
  text.length <= TITLE_LENGTH ? text : `${text.slice(0, TITLE_LENGTH).replace(/\s+\S*$/, "")} …`;

/** What asks a model for a title; undefined if the first message is one, or a title was given. */
export function titleRequestOf(conversation: Conversation): string | undefined {
  const words = firstWords(conversation);
  if (conversation.title || words.length <= SHORT_LENGTH) return undefined;
  const excerpt = words.slice(0, EXCERPT_LENGTH);
  return `Give a title of two to five words to a conversation that begins with the message below, in the language of the message. Answer with the title alone.\n\n${excerpt}`;
}

/** The title that a model has given, without marks around it; undefined if it is no title. */
export function titleIn(reply: string): string | undefined {
  const title = reply.trim().replace(/^(?:[\s#*_"'`“”„«»]|title:|titel:)+|[\s*_"'`“”«».]+$/gi, "");
  return title === "" || title.length > TITLE_LENGTH || title.includes("\n") ? undefined : title;
}

/** The reply of a turn that is shown. */
export const shownReply = (turn: Turn): Reply | undefined => turn.replies[turn.shown];

/** Whether a reply to the last turn comes, in whichever tab. */
export const isAnswering = ({ turns }: Conversation): boolean =>
  turns.at(-1)?.replies.at(-1)?.state === "writing";

/** What the API is told: the turns with the replies that are shown. */
export const messagesOf = (turns: readonly Turn[]) =>
  turns.flatMap((turn) => {
    const content = shownReply(turn)?.content;
    const said = { role: "user" as const, content: turn.said };
    return content ? [said, { role: "assistant" as const, content }] : [said];
  });

/** Whether a conversation has a text, in any case. */
export const contains = (conversation: Conversation, text: string): boolean => {
  const wanted = text.toLowerCase();
  return [
    titleOf(conversation),
    ...conversation.turns.flatMap(({ said, replies }) => [said, ...replies.map((r) => r.content)]),
  ].some((each) => each.toLowerCase().includes(wanted));
};

/** A conversation as Markdown. */
export const markdownOf = (conversation: Conversation): string =>
  [
    `# ${titleOf(conversation)}`,
    ...conversation.turns.flatMap((turn) => {
      const reply = shownReply(turn);
      return [
        `## You\n\n${turn.said}`,
        ...(reply ? [`## ${reply.model}\n\n${reply.content}`] : []),
      ];
    }),
  ].join("\n\n");

const isText = (value: unknown) => typeof value === "string";
const isReply = (reply: Partial<Reply> | undefined) =>
  [reply?.content, reply?.provider, reply?.model, reply?.state].every(isText) &&
  Number.isFinite(reply?.at);
const isTurn = (turn: Partial<Turn> | undefined) =>
  isText(turn?.said) && Number.isFinite(turn?.at) && turn?.replies?.every(isReply) === true;

/**
 * Reads a conversation of a file, of this version or an earlier one. What a file lacks gets its
 * default.
 * @throws Error if it is none
 */
export function readConversation(given: Partial<Conversation> | Former | undefined): Conversation {
  const isFormer = given?.turns?.some((turn) => turn && "role" in turn);
  const read = isFormer ? upgrade(given as Former) : (given as Partial<Conversation> | undefined);
  if (!(isText(read?.id) && Array.isArray(read?.turns) && read.turns.every(isTurn)))
    throw new Error("no conversation");
  const text = (value: unknown) => (isText(value) ? String(value) : "");
  return {
    ...{ id: read.id as string, title: text(read.title), isPinned: read.isPinned === true },
    ...{ provider: text(read.provider), model: text(read.model), system: text(read.system) },
    temperature: text(read.temperature),
    updatedAt: Number.isFinite(read.updatedAt) ? Number(read.updatedAt) : Date.now(),
    turns: read.turns.map((turn) => ({
      ...turn,
      shown: Math.min(
        Math.max(Math.trunc(turn.shown) || 0, 0),
        Math.max(turn.replies.length - 1, 0),
      ),
    })),
  };
}

/** A conversation of version 0.1, which kept the parts of a turn apart. */
type Former = {
  id: string;
  provider: string;
  model?: string;
  system?: string;
  temperature?: string;
  turns: {
    role: string;
    content: string;
    failure?: Reply["failure"];
    problem?: unknown;
    isStopped?: boolean;
  }[];
};

/** Reads a conversation that an earlier version has kept. */
export function upgrade({ id, provider, model = "", turns, ...former }: Former): Conversation {
  const at = Number(id.split("-")[0]) || Date.now();
  const all: Turn[] = [];
  for (const { role, content, failure, problem, isStopped } of turns) {
    if (role === "user") all.push({ said: content, at, replies: [], shown: 0 });
    const state = isStopped ? "stopped" : failure || problem ? "failed" : "done";
    if (role === "assistant")
      all
        .at(-1)
        ?.replies.push({ ...{ content, provider, model, at, state }, ...(failure && { failure }) });
  }
  const { system = "", temperature = "" } = former;
  return {
    ...{ id: crypto.randomUUID?.() ?? `${at}-${all.length}`, title: "", provider, model, system },
    ...{ temperature, isPinned: false, updatedAt: at, turns: all },
  };
}
