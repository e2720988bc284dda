import { type CloudName, PROJECT, REGION } from "../../catalogue-clouds.ts";

/** Location of the models of a provider in a cloud. Unknown fields are empty. */
export type Place = { baseUrl: string; region: string; project: string; apiVersion: string };

type Entry = {
  keyVariable: string;
  baseUrlVariable: string;
  region?: string;
  project?: string;
  apiVersion?: string;
};
type Variables = Readonly<Record<string, string | undefined>>;
/** What is known about a provider: its location or a problem; neither if it is not configured. */
type Found = { place?: Place; problem?: string };

/**
 * Determines the location of the models of a provider. Its credentials may be those of the process,
 * so a location alone configures it.
 * @param baseUrl empty if it follows from the region
 */
export function findPlace(
  cloud: CloudName,
  entry: Entry,
  variables: Variables,
  { baseUrl, hasKey }: Given,
): Found {
  return FINDERS[cloud](entry, variables, { baseUrl, hasKey });
}

/** What the variables and the catalogue say about a provider. */
type Given = { baseUrl: string; hasKey: boolean };
type Finder = (entry: Entry, variables: Variables, given: Given) => Found;

const NO_REGION = "must be the name of a region";

const FINDERS: Readonly<Record<CloudName, Finder>> = {
  azure({ keyVariable, baseUrlVariable, apiVersion = "" }, _variables, { baseUrl, hasKey }) {
    if (baseUrl !== "") return { place: { baseUrl, region: "", project: "", apiVersion } };
    return hasKey ? { problem: `${baseUrlVariable} must be set, since ${keyVariable} is` } : {};
  },
  bedrock(entry, variables, { baseUrl, hasKey }) {
    const region = entry.region ?? (variables.AWS_REGION || variables.AWS_DEFAULT_REGION || "");
    if (region !== "" && !REGION.test(region)) return { problem: `AWS_REGION ${NO_REGION}` };
    const place = { baseUrl, region, project: "", apiVersion: "" };
    if (region !== "") return { place };
    if (baseUrl !== "" && hasKey) return { place }; // signatures name a region, keys do not
    const isWanted = baseUrl !== "" || hasKey;
    return isWanted ? { problem: "AWS_REGION must be set for models on Bedrock" } : {};
  },
  vertex(entry, variables, { baseUrl }) {
    const project = entry.project ?? (variables.GOOGLE_CLOUD_PROJECT || "");
    const region = entry.region ?? (variables.GOOGLE_CLOUD_LOCATION || "global");
    if (project === "") return {};
    if (!PROJECT.test(project))
      return { problem: "GOOGLE_CLOUD_PROJECT must be the id of a project" };
    if (!REGION.test(region)) return { problem: `GOOGLE_CLOUD_LOCATION ${NO_REGION}` };
    return { place: { baseUrl, region, project, apiVersion: "" } };
  },
};
