/** Token counts, as the provider reports them, and the cost, if the model has a price. */
export type Usage = { inputTokens: number; outputTokens: number; cost?: string };

/**
 * A reply of a model. It may be incomplete because of a failure, or because the user stopped it.
 */
export type Reply = {
  content: string;
  /** The model's reasoning, if it returns any. */
  reasoning?: string;
  /** The usage of all of its calls. Absent if that of one is unknown, such as of a stopped one. */
  usage?: Usage;
  provider: string;
  model: string;
  /** Time of the request, in ms. */
  at: number;
  /**
   * How it ended. `cut`: at the maximum number of tokens. `writing`: in progress, or interrupted by
   * a crash.
   */
  state: "writing" | "done" | "cut" | "stopped" | "failed";
  failure?: { code: string; violations: Record<string, string>; detail: string | undefined };
};

/** A message of the user and the replies to it. `shown` is the index of the reply that is shown. */
export type Turn = { said: string; at: number; replies: Reply[]; shown: number };

/** A conversation and its settings. An empty text means the default. */
export type Conversation = {
  id: string;
  /** Given by the user or the model. If empty, the first words are the title. */
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
/**
 * Maximum length of a first message that can be the title: as many characters as fit into the list.
 */
const SHORT_LENGTH = 30;
/** Length of the excerpt of the first message from which a model derives a title, in characters. */
const EXCERPT_LENGTH = 1_000;

const firstWords = ({ turns }: Conversation) => (turns[0]?.said ?? "").replace(/\s+/g, " ").trim();

export const titleOf = (conversation: Conversation): string =>
  conversation.title || shorten(firstWords(conversation));

/** Shortens a text at a word boundary. */
const shorten = (text: string) =>
  text.length <= TITLE_LENGTH ? text : `${text.slice(0, TITLE_LENGTH).replace(/\s+\S*$/, "")} …`;

/**
 * The prompt that asks a model for a title; undefined if the first message is short enough or there
 * is a title.
 */
export function titleRequestOf(conversation: Conversation): string | undefined {
  const words = firstWords(conversation);
  if (conversation.title || words.length <= SHORT_LENGTH) return undefined;
  const excerpt = words.slice(0, EXCERPT_LENGTH);
  return `Give a title of two to five words to a conversation that begins with the message below, in the language of the message. Answer with the title alone.\n\n${excerpt}`;
}

/**
 * The title in a model's reply, without surrounding punctuation; undefined if the reply is not a
 * title.
 */
export function titleIn(reply: string): string | undefined {
  const title = reply.trim().replace(/^(?:[\s#*_"'`“”„«»]|title:|titel:)+|[\s*_"'`“”«».]+$/gi, "");
  return title === "" || title.length > TITLE_LENGTH || title.includes("\n") ? undefined : title;
}

/** The reply of a turn that is shown. */
export const shownReply = (turn: Turn): Reply | undefined => turn.replies[turn.shown];

/** The reply to the last turn that is in progress, in any tab. */
export const growingReply = ({ turns }: Conversation): Reply | undefined =>
  turns.at(-1)?.replies.find(({ state }) => state === "writing");

export const isAnswering = (conversation: Conversation): boolean =>
  growingReply(conversation) !== undefined;

/** The messages to send to the API: those of the user, and the replies that are shown. */
export const messagesOf = (turns: readonly Turn[]) =>
  turns.flatMap((turn) => {
    const content = shownReply(turn)?.content;
    const said = { role: "user" as const, content: turn.said };
    return content ? [said, { role: "assistant" as const, content }] : [said];
  });

/** Asks a model to continue its last message, which ends as `wholeWords` leaves it. */
export const CONTINUE =
  "Your last message ended early. Continue it from exactly where it ends, in its language and format, as if it had never stopped. Do not repeat, introduce or explain anything. Stay inside of a code block that is open.";

/**
 * Maximum length of a word, in UTF-16 code units. Longer ones are text in a language without
 * spaces.
 */
const MAX_WORD = 40;

/**
 * A text up to its last space. A reply may have ended in the middle of a word, which models do not
 * notice: they write that word again.
 */
export function wholeWords(text: string): string {
  const end = text.slice(-MAX_WORD);
  const [word = ""] = /\S*$/.exec(end) ?? [];
  return word.length < end.trim().length ? text.slice(0, text.length - word.length) : text;
}

/** A text and its continuation, with at most one space in between. */
export const joined = (text: string, more: string): string =>
  text + (/[ \t]$/.test(text) ? more.replace(/^[ \t]+/, "") : more);

/** Decimal places of a cost. */
const COST_PLACES = 9;

/** The usage of two calls together; undefined if that of one is unknown. */
export function sumOf(one: Usage | undefined, other: Usage | undefined): Usage | undefined {
  if (!one || !other) return undefined;
  const hasCost = one.cost !== undefined && other.cost !== undefined;
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    ...(hasCost && { cost: (Number(one.cost) + Number(other.cost)).toFixed(COST_PLACES) }),
  };
}

/** Whether a conversation contains a text, case-insensitive. */
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
 * Reads a conversation from a file of this version or an earlier one. Missing properties get their
 * defaults.
 * @throws Error if it is not a conversation
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

/** A conversation of version 0.1, in which a message and its reply were separate turns. */
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

/** Converts a conversation that an earlier version has stored. */
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
