import { v7 as uuid } from "uuid";
import { type Simulator, startProviderSimulator } from "../../../scripts/simulators/simulator.ts";
import type { ChatDeps, Conversation } from "../../../services/ai/chat.ts";
import { type AiContext, createAiContext } from "../../../services/ai/context.ts";
import { createMetrics } from "../../../services/metrics.ts";
import type { Store } from "../../../services/store/store.ts";
import { conversationOf } from "../../support/ai-calls.ts";
import { silent } from "../../support/log.ts";
import { openQuietStore } from "../../support/stores.ts";

export const clock = { now: () => new Date("2026-11-21T12:00:00Z") };

/** The AI operations on an empty database, with provider-a simulated and the others without a key. */
export type Desk = { ai: AiContext; store: Store; simulator: Simulator; close(): Promise<void> };

export async function openDesk(url?: string): Promise<Desk> {
  const [store, simulator] = await Promise.all([openQuietStore(url), startProviderSimulator({ dialect: "openai" })]);
  await store.migrate();
  const proxyEnv = { HTTPS_PROXY: undefined, NO_PROXY: undefined };
  const limits = { firstByteMs: 5_000, idleMs: 5_000, totalMs: 10_000, retries: 2 };
  const ai = createAiContext(
    { ai: { catalogue: undefined, proxyEnv, variables: simulator.env, ...limits } },
    store,
    clock,
    silent,
  );
  const close = async () => {
    await ai.close();
    await Promise.all([store.close(), simulator.close()]);
  };
  return { ai, store, simulator, close };
}

/** A call of a new user. */
export async function newCall({ ai, store }: Desk): Promise<ChatDeps & { userId: string; client: AbortController }> {
  const userId = uuid();
  const now = clock.now();
  await store.fork().execute(
    `insert into users (id, email, canonical_email, name, password_hash, password_changed_at, terms_accepted_at,
                        created_at, updated_at) values (?, ?, ?, '', '', ?, ?, ?, ?)`,
    [userId, userId, userId, now, now, now, now],
  );
  const client = new AbortController();
  const sessionId = uuid();
  const later = new Date(now.getTime() + 3_600_000);
  await store.fork().execute(
    `insert into sessions (id, user_id, rotated_at, device, ip, created_at, last_active_at, expires_at, ends_at)
     values (?, ?, ?, '', '', ?, ?, ?, ?)`,
    [sessionId, userId, now, now, now, later, later],
  );
  const caller = { user: { id: userId }, session: { id: sessionId } } as ChatDeps["caller"];
  const measured = { metrics: createMetrics(), startedAt: performance.now(), tracing: undefined, traceparent: null };
  return { ai, caller, log: silent, requestId: "request", signal: client.signal, ...measured, userId, client };
}

/** The dependencies of an erasure. */
export const erasureOn = ({ store }: Pick<Desk, "store">) => {
  const client = { address: "127.0.0.1", agent: "" };
  return { em: store.fork(), clock, client, requestId: "request", caller: undefined };
};

export const saying = (content: string) => conversationOf(content) as Conversation;

/** The usage rows of a user. */
export async function rowsOf({ ai, store }: Desk, userId: string) {
  await ai.usage.flush();
  return store.fork().execute(
    `select provider, model, outcome, input_tokens, output_tokens, estimated, latency_ms, first_chunk_ms
     from ai_usage where user_id = ? order by outcome`,
    [userId],
  );
}
