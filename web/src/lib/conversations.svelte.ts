import { type Conversation, upgrade } from "./conversation.ts";
import { Kept } from "./kept.ts";

/** Set if conversations are kept after a sign-out. */
const KEEP = "gatehouse-keep-conversations";
/** A message from a tab to the others. */
type Message = { userId: string; id: string };
const tabs = new BroadcastChannel("gatehouse-conversations");

/** The conversations of a user, newest first. They stay in this browser. */
export class Conversations {
  readonly all = $state<Conversation[]>([]);
  /** Resolves once the conversations have been loaded. */
  readonly ready: Promise<void>;
  readonly userId: string;
  /**
   * Ids of conversations that this tab is writing. Versions stored by other tabs would be outdated.
   */
  readonly written = new Set<string>();
  readonly #kept: Kept;

  constructor(userId: string) {
    this.userId = userId;
    this.#kept = new Kept(userId);
    this.ready = this.#read();
    tabs.addEventListener("message", ({ data }: MessageEvent<Message>) => {
      if (data.userId === userId) this.refresh(data.id);
    });
  }

  find(id: string): Conversation | undefined {
    return this.all.find((each) => each.id === id);
  }

  /** Creates a conversation with the settings of the newest one. */
  begin(provider: string): Conversation {
    const { model = "", system = "", temperature = "" } = this.all[0] ?? {};
    const settings = { provider: this.all[0]?.provider ?? provider, model, system, temperature };
    const id = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random().toString(36).slice(2)}`; // UUIDs need https
    return { ...settings, id, title: "", isPinned: false, updatedAt: Date.now(), turns: [] };
  }

  /** Adds a conversation, such as a new or an imported one. */
  add(conversation: Conversation): Conversation {
    this.all.unshift(conversation);
    return this.all[0] as Conversation;
  }

  /** Stores a conversation and notifies the other tabs. */
  async save(conversation: Conversation): Promise<void> {
    if (!this.find(conversation.id)) return;
    await this.#kept.put($state.snapshot(conversation));
    tabs.postMessage({ userId: this.userId, id: conversation.id } satisfies Message);
  }

  /** @returns a function that undoes the removal */
  remove(id: string): () => void {
    const index = this.all.findIndex((each) => each.id === id);
    const [removed] = index >= 0 ? this.all.splice(index, 1) : [];
    this.#kept.remove(id).then(() => tabs.postMessage({ userId: this.userId, id }));
    return () => {
      if (!removed) return;
      this.all.splice(index, 0, removed);
      this.save(removed);
    };
  }

  /** Deletes all conversations, in the browser's storage too. */
  async destroy(): Promise<void> {
    this.all.length = 0;
    await this.#kept.destroy(this.userId);
  }

  async #read(): Promise<void> {
    const former = `gatehouse-conversations-${this.userId}`;
    for (const each of parsed(localStorage.getItem(former))) await this.#kept.put(upgrade(each));
    localStorage.removeItem(former);
    const all = await this.#kept.all().catch(() => []);
    this.all.push(...all.sort((a, b) => b.updatedAt - a.updatedAt));
  }

  /** Adopts the version of a conversation that another tab has stored. */
  async refresh(id: string): Promise<void> {
    const changed = await this.#kept.get(id).catch(() => undefined);
    const index = this.all.findIndex((each) => each.id === id);
    const known = this.all[index];
    if (!changed && known) this.all.splice(index, 1);
    else if (changed && !known) this.all.unshift(changed);
    else if (changed && known) {
      const { title, isPinned } = changed;
      Object.assign(known, this.written.has(id) ? { title, isPinned } : changed);
    }
  }
}

function parsed(text: string | null): Parameters<typeof upgrade>[0][] {
  try {
    return JSON.parse(text ?? "[]");
  } catch {
    return []; // another version wrote it
  }
}

let current: Conversations | undefined;

/** Opens the conversations of a user. */
export function openConversations(userId: string): Conversations {
  if (current?.userId !== userId) current = new Conversations(userId);
  return current;
}

export const keepsConversations = () => localStorage.getItem(KEEP) !== null;

/** Sets whether conversations are kept in this browser after a sign-out. */
export function keepConversations(isOn: boolean): void {
  if (isOn) localStorage.setItem(KEEP, "yes");
  else localStorage.removeItem(KEEP);
}

/** Deletes the conversations of a user who signs out, unless they should be kept. */
export async function forgetConversations(userId: string, always = false): Promise<void> {
  if (keepsConversations() && !always) return;
  const leaving = current?.userId === userId ? current : new Conversations(userId);
  current = undefined;
  await leaving.destroy();
}
