import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { UserCall } from "../call.ts";
import { invalidFields, ServiceError, type Violation } from "../platform/rpc/errors.ts";
import type { UserPrincipal } from "../principal.ts";
import {
  type Catalogue,
  type CatalogueAlias,
  type CatalogueModel,
  type CatalogueProvider,
  isEmbedding,
  longNameOf,
} from "./catalogue.ts";
import { orderTargets } from "./order-targets.ts";
import type { Targets } from "./targets.ts";

/** A model of a provider. */
export type Target = { entry: CatalogueProvider; model: CatalogueModel };

/** The models and aliases that an API key names; null for a caller who may use all. */
const namedModels = (principal: UserPrincipal | undefined) =>
  principal?.kind === "api-key" ? principal.key.models : null;

/** The models of a provider that a caller may use: all, unless an API key names some. */
function usableModels(
  { id, models }: CatalogueProvider,
  principal: UserPrincipal | undefined,
): readonly CatalogueModel[] {
  const named = namedModels(principal);
  if (!named) return models;
  return models.filter(({ name }) => named.includes(name) || named.includes(longNameOf(id, name)));
}

/** Those of them for conversations. */
export const chatModels = (
  entry: CatalogueProvider,
  principal?: UserPrincipal,
): readonly CatalogueModel[] =>
  usableModels(entry, principal).filter((model) => !isEmbedding(model));

/** The error for an embedding model in a request for a conversation. */
export const EMBEDDINGS_ONLY = "is an embedding model: use POST /v1/embeddings";

/** The aliases that a caller may use. A key that names an alias need not name its models. */
function usableAliases(
  { aliases }: Catalogue,
  principal: UserPrincipal,
): readonly CatalogueAlias[] {
  const named = namedModels(principal);
  return named ? aliases.filter(({ name }) => named.includes(name)) : aliases;
}

/** All models that a caller may use, whether or not their providers are configured. */
const targetsOf = ({ providers }: Catalogue, principal: UserPrincipal): Target[] =>
  providers.flatMap((entry) => usableModels(entry, principal).map((model) => ({ entry, model })));

/**
 * Name of a model without that of its provider; undefined if several providers of the catalogue
 * have a model of this name, whoever calls.
 */
function shortName({ providers }: Catalogue, { model: { name } }: Target): string | undefined {
  const owners = providers.filter(({ models }) => models.some((model) => model.name === name));
  return owners.length === 1 ? name : undefined;
}

const longName = ({ entry, model }: Target) => longNameOf(entry.id, model.name);

/** A name that callers use for a model or, without a provider, for an alias. */
export type ListedName = { name: string; provider?: string };

type ModelDeps = Pick<UserCall, "ai" | "principal">;

/**
 * What a caller can call: models of configured providers in catalogue order, then aliases with such
 * a model.
 */
export function listModels({ ai: { catalogue, providers }, principal }: ModelDeps): ListedName[] {
  const models = targetsOf(catalogue, principal)
    .filter(({ entry }) => providers.byId.has(entry.id))
    .map((target) => ({
      name: shortName(catalogue, target) ?? longName(target),
      provider: target.entry.id,
    }));
  const aliases = usableAliases(catalogue, principal)
    .filter(({ targets }) => targets.some(({ provider }) => providers.byId.has(provider)))
    .map(({ name }) => ({ name }));
  return [...models, ...aliases];
}

/**
 * Finds a model or alias that the caller can call.
 * @throws ServiceError NOT_FOUND, also if no provider of it is configured
 */
export function findListedModel(deps: ModelDeps, name: string): ListedName {
  const alias = findAlias(deps, name);
  const target = alias ? undefined : findModel(deps, name);
  const names = target ? [longName(target), shortName(deps.ai.catalogue, target)] : [alias?.name];
  const listed = listModels(deps).find((each) => names.includes(each.name));
  if (!listed) throw notFound();
  return listed;
}

/** A model of an alias, with its share of the calls. */
export type WeightedTarget = Target & { weight: number };

/** An alias that the caller may use, with its models; undefined if there is none of this name. */
export function findAlias(
  { ai: { catalogue }, principal }: ModelDeps,
  name: string,
): { name: string; targets: WeightedTarget[] } | undefined {
  const alias = usableAliases(catalogue, principal).find((each) => each.name === name);
  if (!alias) return undefined;
  const targets = alias.targets.flatMap(({ provider, model: named, weight }) => {
    const entry = catalogue.providers.find(({ id }) => id === provider);
    const model = entry?.models.find((each) => each.name === named);
    return entry && model ? [{ entry, model, weight }] : [];
  });
  return { name: alias.name, targets };
}

const notFound = (message = "This model does not exist, or you may not use it.") =>
  new ServiceError(Reason.NOT_FOUND, message);

/**
 * Finds a model by `provider/model`, or by its own name if no other provider has a model of that
 * name.
 * @throws ServiceError NOT_FOUND, also for a model that the API key may not use
 */
export function findModel({ ai: { catalogue }, principal }: ModelDeps, name: string): Target {
  const targets = targetsOf(catalogue, principal);
  const found =
    targets.find((target) => longName(target) === name) ??
    targets.find((target) => shortName(catalogue, target) === name);
  if (found) return found;
  const longNames = targets.filter(({ model }) => model.name === name).map(longName);
  throw longNames.length > 0
    ? notFound(`Several providers have this model. Name one of ${longNames.join(", ")}.`)
    : notFound();
}

/**
 * The models of an alias that can take a request, in the order in which they are tried.
 * @param violationsOf what a model can't take
 * @throws ServiceError PROVIDER_NOT_CONFIGURED if no provider has a key; VALIDATION_FAILED if no
 * model can take it, with what the first one can't
 */
export function ableTargets(
  { ai }: Pick<UserCall, "ai">,
  targets: readonly WeightedTarget[],
  violationsOf: (target: Target) => readonly Violation[],
): Targets<WeightedTarget> {
  const configured = targets.filter(({ entry }) => ai.providers.byId.has(entry.id));
  if (configured.length === 0)
    throw new ServiceError(
      Reason.PROVIDER_NOT_CONFIGURED,
      "No AI provider of this model is configured.",
    );
  const able = configured.filter((target) => violationsOf(target).length === 0);
  const [first, ...others] = orderTargets(able, ({ entry }) => ai.providers.isAvoided(entry.id));
  if (!first) throw invalidFields(violationsOf(configured[0] as Target));
  return [first, ...others];
}
