/** The rows of the history of the demo, as its tables have them. */
import { isEmbedding, readCatalogue } from "../../services/ai/catalogue.ts";
import { costOf } from "../../services/ai/price.ts";
import { newId } from "../../services/store/ids.ts";
import type { Chance, Person, Source } from "./demo-people.ts";

export type Row = Record<string, unknown>;

/** Tables in the order in which they are filled. */
export const TABLES = [
  ...["users", "attempts", "api_keys", "audit_events", "emails", "sessions", "ai_usage"],
  ...["budgets", "budget_counters", "webhooks", "webhook_deliveries"],
] as const;
/** The rows of the history by their tables. */
export type History = Record<(typeof TABLES)[number], Row[]>;

/** What the parts of the history are composed with. */
export type Composition = {
  now: number;
  people: Person[];
  rows: History;
  chance: Chance;
  usageRow: UsageRow;
  /** Encrypts the secret of a webhook. */
  webhookSecretOf: (webhookId: string) => string;
};

/** What a call was made with, where it is not left to chance. */
type CallFacts = { keyId?: string; alias?: string; provider?: string; outcome?: string };
export type UsageRow = (person: { id: string }, at: Date, chance: Chance, facts?: CallFacts) => Row;

/** Shares of the providers, and of the models of each, in the order of the catalogue. */
const SHARES = [0.45, 0.75, 0.9, 1];
const FAILURES = ["overloaded", "timed out", "rate limited"] as const;

/** Whether each model of a catalogue has a price: budgets of money refuse the others. */
export const isPriced = (catalogueName: string | undefined): boolean =>
  readCatalogue(catalogueName).providers.every(({ models }) => models.every(({ price }) => price));

/** Composes calls of the models of a catalogue, at its prices. */
export function createUsageRow(catalogueName: string | undefined): UsageRow {
  const providers = readCatalogue(catalogueName).providers.map(({ id, models }) => ({
    id,
    models: models.filter((model) => !isEmbedding(model)),
  }));
  const byShare = <T>(items: readonly T[], chance: Chance): T | undefined => {
    const share = chance.next();
    return items[SHARES.findIndex((limit) => share < limit)] ?? items[0];
  };
  return (person, at, chance, facts = {}) => {
    const provider =
      providers.find(({ id }) => id === facts.provider) ?? byShare(providers, chance);
    const model = byShare(provider?.models ?? [], chance);
    const isLost = chance.below(70) === 0;
    const outcome = facts.outcome ?? (isLost ? chance.of(FAILURES) : "completed");
    const numbers = outcome === "completed" ? tokensOf(chance) : NO_TOKENS;
    const latency = 900 + chance.below(9_000);
    return {
      ...{ id: newId(at), user_id: person.id, api_key_id: facts.keyId ?? null },
      ...{ alias: facts.alias ?? null, provider: provider?.id, model: model?.name, outcome },
      input_tokens: numbers.inputTokens,
      output_tokens: numbers.outputTokens,
      cached_input_tokens: numbers.cachedInputTokens,
      reasoning_tokens: numbers.reasoningTokens,
      cost_nanos: model?.price ? String(costOf(model.price, numbers)) : null,
      ...{ estimated: false, latency_ms: latency, first_chunk_ms: Math.round(latency / 5) },
      created_at: at,
    };
  };
}

/** Calls that fail before the provider has read them. */
const NO_TOKENS = { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0, reasoningTokens: 0 };

function tokensOf(chance: Chance): typeof NO_TOKENS {
  const inputTokens = 300 + chance.below(9_000);
  const outputTokens = 120 + chance.below(1_900);
  const isCached = chance.below(3) === 0;
  const isReasoned = chance.below(4) === 0;
  return {
    ...{ inputTokens, outputTokens },
    cachedInputTokens: isCached ? Math.floor(inputTokens * 0.6) : 0,
    reasoningTokens: isReasoned ? Math.floor(outputTokens * 0.4) : 0,
  };
}

/** An event of a user, by default caused by the same one. */
export function eventRow(
  { id, email }: Pick<Person, "id" | "email">,
  event: string,
  at: Date,
  { client, ip }: Source,
  outcome = "success",
): Row {
  return {
    ...{ id: newId(at), event, outcome, user_id: id, actor_id: outcome === "success" ? id : null },
    ...{ ip, user_agent: client[1], request_id: crypto.randomUUID(), created_at: at },
    details: outcome === "failure" ? { email, reason: "password" } : {},
  };
}

/** @param error why it failed; undefined if it was sent */
export function emailRow(
  { id, email, name }: Pick<Person, "id" | "email" | "name">,
  template: string,
  at: Date,
  error?: string,
): Row {
  const facts =
    template === "verify-email" || template === "invitation"
      ? { name, lifetime: template === "invitation" ? "PT10080M" : "PT1440M" }
      : { name, at, client: "Chrome on Linux" };
  return {
    ...{ id: newId(at), user_id: id, to: email, template, facts },
    ...{ status: error ? "failed" : "sent", attempts: 1, created_at: at },
    last_error: error ?? null,
    sent_at: error ? null : new Date(at.getTime() + 1_500),
  };
}
