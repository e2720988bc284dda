// The simulated clouds, and a catalogue with their models.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { vi } from "vitest";
import {
  azureDoor,
  bedrockDoor,
  PROJECT,
  REGION,
  vertexAnthropicDoor,
  vertexGoogleDoor,
} from "../../../scripts/simulators/clouds/doors.ts";
import {
  type CloudIdentity,
  STATIC_KEYS,
  startCloudIdentity,
} from "../../../scripts/simulators/clouds/identity.ts";
import { type Door, startProviderSimulator } from "../../../scripts/simulators/simulator.ts";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import { temporaryFolder } from "../temporary-folder.ts";

/** A cloud and a dialect of its models. */
type CloudRow = {
  id: string;
  endpoint: "azure" | "bedrock" | "vertex";
  dialect: "openai" | "anthropic" | "google";
  doorOf(identity: CloudIdentity): Door;
  /** Variable of the base URL, and its path. */
  base: readonly [variable: string, path: string];
  /** Variable of API keys, if there are any. */
  keyVariable?: string;
};

export const CLOUDS: readonly CloudRow[] = [
  {
    ...{ id: "azure-openai", endpoint: "azure", dialect: "openai" },
    doorOf: azureDoor,
    base: ["AZURE_OPENAI_BASE_URL", ""],
    keyVariable: "AZURE_OPENAI_API_KEY",
  },
  {
    ...{ id: "bedrock-openai", endpoint: "bedrock", dialect: "openai" },
    doorOf: (identity) => bedrockDoor(identity, "/openai/v1/"),
    base: ["AWS_BEDROCK_BASE_URL", "/openai/v1"],
    keyVariable: "AWS_BEARER_TOKEN_BEDROCK",
  },
  {
    ...{ id: "bedrock-anthropic", endpoint: "bedrock", dialect: "anthropic" },
    doorOf: (identity) => bedrockDoor(identity, "/anthropic/v1/"),
    base: ["ANTHROPIC_BEDROCK_MANTLE_BASE_URL", "/anthropic"],
    keyVariable: "AWS_BEARER_TOKEN_BEDROCK",
  },
  {
    ...{ id: "vertex-anthropic", endpoint: "vertex", dialect: "anthropic" },
    doorOf: vertexAnthropicDoor,
    base: ["ANTHROPIC_VERTEX_BASE_URL", "/v1"],
  },
  {
    ...{ id: "vertex-google", endpoint: "vertex", dialect: "google" },
    doorOf: vertexGoogleDoor,
    base: ["GOOGLE_VERTEX_BASE_URL", ""],
  },
];

/** A price, so that calls have a cost. */
const PRICE = { input: 1, output: 4 };

/** The entry of a cloud in a catalogue. Its model is the first one of its dialect. */
export function cloudEntry({ id, endpoint, dialect }: CloudRow) {
  const vendor = readCatalogue().providers.find((entry) => entry.dialect === dialect);
  const { upstream = "", outputTokens = 0, temperature = 2 } = vendor?.models[0] ?? {};
  const chat = { name: `${id}-model`, upstream, outputTokens, temperature, price: PRICE };
  const embedding = {
    ...{ name: `${id}-vectors`, upstream: "text-embedding-3-small", kind: "embedding" },
  };
  return { id, endpoint, dialect, models: endpoint === "azure" ? [chat, embedding] : [chat] };
}

/** Credentials of this process: those of its machine, or for AWS those of a user. */
type Access = { lifetimeSeconds?: number; awsKeys?: "machine" | "static" };

/**
 * Starts a simulator of every cloud, and the servers of its credentials.
 * @param aliases of the catalogue
 */
export async function startClouds(
  { lifetimeSeconds = 3_600, awsKeys = "machine" }: Access = {},
  aliases: readonly object[] = [],
) {
  const identity = await startCloudIdentity({ lifetimeSeconds });
  const { accessKeyId, secretAccessKey } = STATIC_KEYS;
  const credentials = {
    ...identity.env.azure,
    ...identity.env.vertex,
    ...(awsKeys === "machine"
      ? identity.env.bedrock
      : { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey }),
    AWS_EC2_METADATA_DISABLED: "true",
  };
  const simulators = await Promise.all(
    CLOUDS.map(({ dialect, doorOf }) =>
      startProviderSimulator({ dialect, door: doorOf(identity) }),
    ),
  );
  const path = join(temporaryFolder(), "clouds.json");
  writeFileSync(path, JSON.stringify({ providers: CLOUDS.map(cloudEntry), aliases }));
  const env: Record<string, string> = {
    AI_CATALOG: path,
    AWS_REGION: REGION,
    GOOGLE_CLOUD_PROJECT: PROJECT,
    GOOGLE_CLOUD_LOCATION: REGION,
  };
  for (const [index, { base }] of CLOUDS.entries())
    env[base[0]] = `${simulators[index]?.url}${base[1]}`;
  return {
    identity,
    /**
     * Gives this process the credentials, until `vi.unstubAllEnvs`. Libraries read them at their
     * first call.
     */
    use(): void {
      for (const [name, value] of Object.entries(credentials)) vi.stubEnv(name, value);
    },
    /** Variables that make a process use the clouds. */
    env,
    /** The simulator of a cloud, by its id. */
    simulatorOf(id: string) {
      const simulator = simulators[CLOUDS.findIndex((each) => each.id === id)];
      if (!simulator) throw new Error(`There is no cloud ${id}.`);
      return simulator;
    },
    async close() {
      await Promise.all([identity, ...simulators].map((each) => each.close()));
    },
  };
}
