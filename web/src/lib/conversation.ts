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
  /** How it ended; `writing` while it comes, and after a crash. */
  state: "writing" | "done" | "stopped" | "failed";
  failure?: { code: string; violations: Record<string, string>; detail: string | undefined };
};

/** What the person said, and the replies to it: the last one counts, earlier ones stay reachable. */
export type Turn = { said: string; at: number; replies: Reply[]; shown: number };

/** A conversation and its settings. An empty text stands for the default. */
export type Conversation = {
  id: string;
  /** Given by the person; the first words otherwise. */
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

export const titleOf = ({ title, turns }: Conversation): string =>
  title || shorten((turns[0]?.said ?? "").replace(/\s+/g, " ").trim());

/** Cuts a text between two words. */
const shorten = (text: string) =>
  text.length <= TITLE_LENGTH ? text : `${text.slice(0, TITLE_LENGTH).replace(/\s+\S*$/, "")} …`;

/** The reply of a turn that is shown. */
export const shownReply = (turn: Turn): Reply | undefined => turn.replies[turn.shown];

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
