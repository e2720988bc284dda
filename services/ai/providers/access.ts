import { BASE_URL, type CatalogueProvider, isBaseUrl } from "../catalogue.ts";
import { packagesFor } from "./clouds/packages.ts";
import { findPlace, type Place } from "./clouds/place.ts";

/** How a provider is reached. */
export type Access = {
  /** At least one key. An empty one stands for the credentials of the process in a cloud. */
  keys: string[];
  /** Empty if it is derived from the location. */
  baseUrl: string;
  /** Where it is in its cloud, if it is in one. */
  place: Place | undefined;
  /** Packages that have to be installed. */
  packages: readonly string[];
};

const KEYS = "must be keys of printable ASCII without spaces, separated by commas";
const KEY = /^[\x21-\x7e]+$/;

/**
 * Reads how a provider of the catalogue is reached.
 * @param variables values of the variables that the catalogue names. An empty value counts as
 * absent.
 * @returns undefined if it is not configured; or what is wrong, without the values
 */
export function readAccess(
  entry: CatalogueProvider,
  variables: Readonly<Record<string, string | undefined>>,
): { access?: Access | undefined; problems: string[] } {
  const { dialect, endpoint, keyVariable, baseUrlVariable } = entry;
  const keys = keysIn(variables[keyVariable] ?? "");
  const hasKey = keys.length > 0;
  const baseUrl = variables[baseUrlVariable] || entry.baseUrl;
  const problems: string[] = [];
  if (!keys.every((key) => KEY.test(key))) problems.push(`${keyVariable} ${KEYS}`);
  const follows = endpoint !== undefined && baseUrl === "";
  if (!follows && !isBaseUrl(baseUrl)) problems.push(`${baseUrlVariable} ${BASE_URL}`);
  if (!endpoint) {
    const access = hasKey ? { keys, baseUrl, place: undefined, packages: [] } : undefined;
    return { access, problems };
  }
  const { place, problem } = findPlace(endpoint, entry, variables, { baseUrl, hasKey });
  if (problem) problems.push(problem);
  const packages = packagesFor(endpoint, dialect, hasKey);
  const access = place && { keys: hasKey ? keys : [""], baseUrl, place, packages };
  return { access, problems };
}

/** The keys in the value of a variable. There may be blanks around the commas. */
const keysIn = (value: string): string[] =>
  value === "" ? [] : value.split(",").map((key) => key.replace(/^ +| +$/g, ""));
