import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { UserCall } from "../call.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import type { UserPrincipal } from "../principal.ts";
import type { Catalogue, CatalogueModel, CatalogueProvider } from "./catalogue.ts";

/** A model of a provider. */
export type Target = { entry: CatalogueProvider; model: CatalogueModel };

/** The models of a provider that a caller may use: all, unless an API key names some. */
export function usableModels(
  { id, models }: CatalogueProvider,
  principal: UserPrincipal | undefined,
): readonly CatalogueModel[] {
  const named = principal?.kind === "api-key" ? principal.key.models : null;
  if (!named) return models;
  return models.filter(({ name }) => named.includes(name) || named.includes(`${id}/${name}`));
}

/** All models that a caller may use, whether or not their providers are configured. */
const targetsOf = ({ providers }: Catalogue, principal: UserPrincipal): Target[] =>
  providers.flatMap((entry) => usableModels(entry, principal).map((model) => ({ entry, model })));

/**
 * Name of a model without that of its provider; undefined if several providers of the catalogue have a model
 * of this name, whoever calls.
 */
function shortName({ providers }: Catalogue, { model: { name } }: Target): string | undefined {
  const owners = providers.filter(({ models }) => models.some((model) => model.name === name));
  return owners.length === 1 ? name : undefined;
}

const longName = ({ entry, model }: Target) => `${entry.id}/${model.name}`;

/** A model under the name for its callers. */
export type ListedTarget = Target & { name: string };

type ModelDeps = Pick<UserCall, "ai" | "principal">;

/** The models that a caller can call, in catalogue order: those of configured providers. */
export const listModels = ({
  ai: { catalogue, providers },
  principal,
}: ModelDeps): ListedTarget[] =>
  targetsOf(catalogue, principal)
    .filter(({ entry }) => providers.byId.has(entry.id))
    .map((target) => ({ ...target, name: shortName(catalogue, target) ?? longName(target) }));

/**
 * Finds a model that the caller can call.
 * @throws ServiceError NOT_FOUND, also if its provider is not configured
 */
export function findListedModel(deps: ModelDeps, name: string): ListedTarget {
  const { model } = findModel(deps, name);
  const listed = listModels(deps).find((target) => target.model === model);
  if (!listed) throw notFound();
  return listed;
}

const notFound = (message = "This model does not exist, or you may not use it.") =>
  new ServiceError(Reason.NOT_FOUND, message);

/**
 * Finds a model by `provider/model`, or by its own name if no other provider has a model of that name.
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
