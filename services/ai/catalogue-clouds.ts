import { z } from "zod";

/** Fields of a provider that only some clouds have. */
const CLOUD_FIELDS = ["region", "project", "apiVersion"] as const;
type CloudField = (typeof CLOUD_FIELDS)[number];

/** A cloud that has models of several vendors behind its own URLs and credentials. */
type CloudFacts = {
  /** Name by OpenTelemetry's semantic conventions. */
  vendor: string;
  /** The dialects of its models, and the default variable of their base URL. */
  baseUrlVariables: Readonly<Record<string, string>>;
  /** Default variable of its API keys. Absent if it has none. */
  keyVariable?: string;
  /** Variable whose value says where the models are. The default is that of the base URL. */
  placeVariable?: string;
  fields: readonly CloudField[];
  hasEmbeddings: boolean;
};

/** The variables have the names that the SDKs of the vendors use. */
const CLOUDS = {
  azure: {
    vendor: "azure.ai.openai",
    baseUrlVariables: { openai: "AZURE_OPENAI_BASE_URL" },
    keyVariable: "AZURE_OPENAI_API_KEY",
    fields: ["apiVersion"],
    hasEmbeddings: true,
  },
  bedrock: {
    vendor: "aws.bedrock",
    baseUrlVariables: {
      openai: "AWS_BEDROCK_BASE_URL",
      anthropic: "ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
    },
    keyVariable: "AWS_BEARER_TOKEN_BEDROCK",
    placeVariable: "AWS_REGION",
    fields: ["region"],
    hasEmbeddings: false,
  },
  vertex: {
    vendor: "gcp.vertex_ai",
    baseUrlVariables: { anthropic: "ANTHROPIC_VERTEX_BASE_URL", google: "GOOGLE_VERTEX_BASE_URL" },
    placeVariable: "GOOGLE_CLOUD_PROJECT",
    fields: ["region", "project"],
    hasEmbeddings: false,
  },
} satisfies Record<string, CloudFacts>;

/** A cloud that the catalogue can name. */
export type CloudName = keyof typeof CLOUDS;
const factsOf = (cloud: CloudName): CloudFacts => CLOUDS[cloud];

/** Names become part of URLs. */
const urlPart = (pattern: RegExp) => z.string().regex(pattern, "cannot be part of a URL");
export const REGION = /^[a-z0-9]+(-[a-z0-9]+)*$/;
export const PROJECT = /^[a-z0-9][a-z0-9.:-]*$/;

/**
 * What a catalogue says of a provider in a cloud, in addition to what it says of every provider.
 */
export const cloudShape = {
  /** The cloud whose URLs and credentials are used. Absent: the vendor of the dialect itself. */
  endpoint: z.enum(Object.keys(CLOUDS) as CloudName[]).exactOptional(),
  /**
   * Bedrock and Vertex: where the models are. By default `AWS_REGION` or `GOOGLE_CLOUD_LOCATION`.
   */
  region: urlPart(REGION).exactOptional(),
  /** Vertex: the project that pays. By default `GOOGLE_CLOUD_PROJECT`. */
  project: urlPart(PROJECT).exactOptional(),
  /** Azure: the version of its API. */
  apiVersion: urlPart(/^[\w.-]+$/).exactOptional(),
};

/** The fields of a provider that depend on its cloud. */
type CloudEntry = {
  dialect: string;
  endpoint?: CloudName;
  keyVariable?: string;
  baseUrlVariable?: string;
  baseUrl?: string;
} & { [field in CloudField]?: string };

/** Where a provider and its key are: the same fields for every provider. */
type Access = {
  /** Variable with the API keys; empty if there are none. */
  keyVariable: string;
  /** Variable that has to be set for the provider to be used. */
  activatedBy: string;
  baseUrlVariable: string;
  /** Base URL if its variable is not set; empty if it follows from the region. */
  baseUrl: string;
};

/** The vendor for metrics of a provider in a cloud. */
export const cloudVendor = (cloud: CloudName | undefined): string | undefined =>
  cloud && factsOf(cloud).vendor;

/** The variables and the base URL of a provider, with the defaults of its cloud. */
export function accessOf(entry: CloudEntry): Access {
  const { endpoint, dialect, keyVariable = "", baseUrlVariable = "", baseUrl = "" } = entry;
  if (!endpoint) return { keyVariable, activatedBy: keyVariable, baseUrlVariable, baseUrl };
  const facts = factsOf(endpoint);
  const urlVariable = baseUrlVariable || (facts.baseUrlVariables[dialect] ?? "");
  return {
    keyVariable: keyVariable || (facts.keyVariable ?? ""),
    activatedBy: facts.placeVariable ?? urlVariable,
    baseUrlVariable: urlVariable,
    baseUrl,
  };
}

/** A field of a provider, and what is wrong with it. */
type Fault = { path: string[]; message: string };

/** What is wrong with the fields of a provider that depend on its cloud. */
export function cloudFaults(entry: CloudEntry): Fault[] {
  const { endpoint, dialect } = entry;
  if (!endpoint) {
    const required = ["keyVariable", "baseUrlVariable", "baseUrl"] as const;
    return [
      ...required
        .filter((field) => entry[field] === undefined)
        .map((field) => ({
          path: [field],
          message: "is required",
        })),
      ...CLOUD_FIELDS.filter((field) => entry[field] !== undefined).map((field) => ({
        path: [field],
        message: 'is for providers with an "endpoint"',
      })),
    ];
  }
  const { baseUrlVariables, keyVariable, fields } = factsOf(endpoint);
  const faults: Fault[] = CLOUD_FIELDS.filter(
    (field) => entry[field] !== undefined && !fields.includes(field),
  ).map((field) => ({ path: [field], message: `is not for ${endpoint}` }));
  if (!Object.hasOwn(baseUrlVariables, dialect)) {
    const message = `${endpoint} has models of the dialects ${Object.keys(baseUrlVariables).join(" and ")}`;
    faults.push({ path: ["dialect"], message });
  }
  if (entry.keyVariable !== undefined && keyVariable === undefined) {
    const message = `${endpoint} has no API keys: its credentials are those of the process`;
    faults.push({ path: ["keyVariable"], message });
  }
  return faults;
}

/** Whether embedding models can be called there. */
export const hasEmbeddings = ({ endpoint, dialect }: Pick<CloudEntry, "endpoint" | "dialect">) =>
  endpoint
    ? factsOf(endpoint).hasEmbeddings
    : dialect === "openai" || dialect === "openai-compatible";

/** The variables of the clouds by their default names, and what they are for. */
export const CLOUD_VARIABLES: Readonly<Record<string, string>> = {
  AZURE_OPENAI_BASE_URL: "Azure: URL of the resource. Activates providers on Azure.",
  AZURE_OPENAI_API_KEY:
    "Azure: API key, or several separated by commas. Without one, `DefaultAzureCredential` is used.",
  AWS_REGION:
    "Bedrock: region. Activates providers on Bedrock. `AWS_DEFAULT_REGION` is a fallback.",
  AWS_BEARER_TOKEN_BEDROCK:
    "Bedrock: API key, or several separated by commas. Without one, requests are signed with credentials from AWS's default chain.",
  AWS_BEDROCK_BASE_URL:
    "Bedrock: base URL of models with OpenAI's API. By default derived from the region.",
  ANTHROPIC_BEDROCK_MANTLE_BASE_URL:
    "Bedrock: base URL of Anthropic's models. By default derived from the region.",
  GOOGLE_CLOUD_PROJECT: "Vertex: id of the project that is billed. Activates providers on Vertex.",
  GOOGLE_CLOUD_LOCATION: "Vertex: a region, `us`, `eu`, or `global`, the default.",
  GOOGLE_VERTEX_BASE_URL: "Vertex: base URL of Gemini models. By default derived from the region.",
  ANTHROPIC_VERTEX_BASE_URL:
    "Vertex: base URL of Anthropic's models, with `/v1`. By default derived from the region.",
};
