import { ignoredBy } from "./catalogue.ts";
import type { AiContext } from "./context.ts";

/** A provider as clients see it (spec 2.6). */
export type ListedProvider = {
  provider: string;
  defaultModel: string;
  configured: boolean;
  models: { model: string; ignored: string[] }[];
};

/** Lists every provider of the catalogue, configured or not. */
export function listProviders({ catalogue, providers }: Pick<AiContext, "catalogue" | "providers">): ListedProvider[] {
  return catalogue.providers.map((entry) => ({
    provider: entry.id,
    defaultModel: entry.models[0].name,
    configured: providers.byId.has(entry.id),
    models: entry.models.map((model) => ({ model: model.name, ignored: ignoredBy(model) })),
  }));
}
