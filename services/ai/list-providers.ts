import { ignoredBy } from "./catalogue.ts";
import type { AiContext } from "./context.ts";

/** Lists every provider of the catalogue, configured or not (spec 2.6). */
export function listProviders({ catalogue, providers }: Pick<AiContext, "catalogue" | "providers">) {
  return catalogue.providers.map((entry) => ({
    provider: entry.id,
    defaultModel: entry.models[0].name,
    configured: providers.byId.has(entry.id),
    models: entry.models.map((model) => ({ model: model.name, ignored: ignoredBy(model) })),
  }));
}
