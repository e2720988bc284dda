import type { Failure } from "./failure.ts";

/**
 * One turn of a conversation. A reply is incomplete because of a failure or because the user
 * stopped it. Earlier versions stored the message of a failure as `problem`.
 */
export type Turn = {
  role: "user" | "assistant";
  content: string;
  failure?: Pick<Failure, "code" | "violations" | "detail">;
  problem?: unknown;
  isStopped?: boolean;
};

/** A conversation and its settings. Empty text means the default. */
export type Conversation = {
  id: string;
  provider: string;
  model: string;
  system: string;
  temperature: string;
  turns: Turn[];
};

const TITLE_LENGTH = 40;
/** Maximum number of conversations stored. Browsers offer about five million characters. */
const MAX_KEPT = 50;

export const titleOf = ({ turns }: Conversation): string =>
  turns[0]?.content.slice(0, TITLE_LENGTH) ?? "";

/** The conversations of a user, newest first, stored in this browser only. */
export class Conversations {
  readonly all = $state<Conversation[]>([]);
  readonly #key: string;

  constructor(userId: string) {
    this.#key = `gatehouse-conversations-${userId}`;
    this.all.push(...this.#stored());
  }

  /**
   * The first conversation; created if there is none or if `isNew`, with the settings of the previous
   * one.
   */
  open(isNew: boolean, provider: string): Conversation {
    const before = this.all[0];
    if (before && (!isNew || before.turns.length === 0)) return before;
    const { model = "", system = "", temperature = "" } = before ?? {};
    const settings = { provider: before?.provider ?? provider, model, system, temperature };
    this.all.unshift({ id: `${Date.now()}-${Math.random()}`, ...settings, turns: [] }); // UUIDs require https
    return this.all[0] as Conversation;
  }

  remove(id: string): void {
    const index = this.all.findIndex((each) => each.id === id);
    if (index >= 0) this.all.splice(index, 1);
    this.#store(this.#stored().filter((each) => each.id !== id));
  }

  /** Stores a conversation, unless it was deleted. Keeps conversations stored by other tabs. */
  save(changed: Conversation): void {
    if (!this.all.some(({ id }) => id === changed.id)) return;
    this.#store([changed, ...this.#stored().filter(({ id }) => id !== changed.id)]);
  }

  #stored(): Conversation[] {
    try {
      return JSON.parse(localStorage.getItem(this.#key) ?? "[]");
    } catch {
      return []; // written by another version
    }
  }

  /** Stores the newest conversations, as many as the browser accepts. */
  #store(conversations: Conversation[]): void {
    for (let count = MAX_KEPT; count > 0; count = Math.floor(count / 2)) {
      try {
        localStorage.setItem(this.#key, JSON.stringify(conversations.slice(0, count)));
        return;
      } catch {
        // storage is full
      }
    }
  }
}
