import type { Config } from "../platform/config/config.ts";
import { type CatalogueModel, isEmbedding, readCatalogue } from "./catalogue.ts";
import { ProviderError } from "./providers/errors.ts";
import type { AnyPrompt } from "./providers/provider.ts";
import { openProviders } from "./providers/providers.ts";

/** What a provider of the catalogue did with one short call of a model. */
export type ProviderCheck = { provider: string } & (
  | { isConfigured: false; missing: string }
  | { isConfigured: true; model: string; ms: number; failure?: string }
);

/** Maximum length of a reply, in tokens. Some models think before they say anything. */
const MAX_TOKENS = 64;

/**
 * Makes one short call of a model of each configured provider, with the settings of the service and
 * without retries. The calls cost what calls cost, and are not recorded as usage.
 * @throws Error for operators if the catalogue or a variable that it names is invalid
 */
export async function* checkProviders(
  config: Pick<
    Config,
    | "aiCatalog"
    | "catalogueVariables"
    | "proxies"
    | "aiFirstByteTimeoutMs"
    | "aiIdleTimeoutMs"
    | "aiTotalTimeoutMs"
  >,
): AsyncGenerator<ProviderCheck, void> {
  const catalogue = readCatalogue(config.aiCatalog);
  const providers = openProviders(catalogue, config.catalogueVariables, {
    firstByteMs: config.aiFirstByteTimeoutMs,
    idleMs: config.aiIdleTimeoutMs,
    totalMs: config.aiTotalTimeoutMs,
    retries: 0,
    proxyEnv: config.proxies,
  });
  try {
    for (const { id: provider, models, activatedBy } of catalogue.providers) {
      if (!providers.byId.has(provider)) {
        yield { provider, isConfigured: false, missing: activatedBy };
        continue;
      }
      const model = models.find((each) => !isEmbedding(each)) ?? models[0];
      const startedAt = performance.now();
      const failure = await failureOf(
        providers.reply([{ provider, prompt: promptFor(model) }], new AbortController().signal),
      );
      const ms = Math.round(performance.now() - startedAt);
      yield { provider, isConfigured: true, model: model.name, ms, ...(failure && { failure }) };
    }
  } finally {
    providers.close();
  }
}

function promptFor(model: CatalogueModel): AnyPrompt {
  if (isEmbedding(model)) return { model, isStream: false, inputs: ["OK"] };
  const parts = [{ text: "Reply with the word OK." }];
  return {
    ...{ model, isStream: true, maxTokens: MAX_TOKENS },
    messages: [{ role: "user", parts }],
  };
}

/** Reads a reply to its end. Returns how it has failed, if it has. */
async function failureOf(reply: AsyncIterable<unknown>): Promise<string | undefined> {
  try {
    for await (const _ of reply);
    return undefined;
  } catch (thrown) {
    if (!(thrown instanceof ProviderError)) throw thrown;
    const { kind, facts } = thrown;
    return facts.detail ? `${kind} (${facts.detail})` : kind;
  }
}
