import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import { missingPackages, packagesFor } from "../../../services/ai/providers/clouds/packages.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";
import { CLOUDS, cloudEntry } from "../../support/ai/clouds.ts";
import { forTest } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

/** A catalogue with one provider. */
function catalogueOf(provider: object) {
  const path = join(temporaryFolder(), "catalogue.json");
  writeFileSync(path, JSON.stringify({ providers: [provider] }));
  return readCatalogue(path);
}

const rowOf = (id: string) => {
  const row = CLOUDS.find((each) => each.id === id);
  if (!row) throw new Error(`There is no cloud ${id}.`);
  return row;
};
const entryOf = (id: string, fields: object = {}) => ({ ...cloudEntry(rowOf(id)), ...fields });

describe("Clouds in the catalogue", () => {
  test.each([
    ["azure-openai", { dialect: "anthropic" }, "dialect: azure has models of the dialects openai"],
    ["azure-openai", { region: "eu" }, "region: is not for azure"],
    ["azure-openai", { apiVersion: "1/2" }, "apiVersion: cannot be part of a URL"],
    ["bedrock-openai", { dialect: "google" }, "dialect: bedrock has models of the dialects openai"],
    ["bedrock-openai", { project: "x" }, "project: is not for bedrock"],
    ["bedrock-openai", { region: "evil.example/" }, "region: cannot be part of a URL"],
    ["vertex-google", { keyVariable: "A_KEY" }, "keyVariable: vertex has no API keys"],
    ["vertex-google", { project: "../other" }, "project: cannot be part of a URL"],
    ["vertex-google", { endpoint: "elsewhere" }, "endpoint: "],
    [
      "bedrock-openai",
      { models: [{ name: "vectors", upstream: "vectors", kind: "embedding" }] },
      '"embedding" is not supported by bedrock',
    ],
  ])("%s with %j is rejected", (id, fields, problem) => {
    expect(() => catalogueOf(entryOf(id, fields))).toThrow(problem);
  });

  test("other providers require keys and base URLs, and reject the fields of clouds", () => {
    const { endpoint: _, ...entry } = entryOf("azure-openai", { region: "eu" });
    const refused = () => catalogueOf(entry);
    for (const field of ["keyVariable", "baseUrlVariable", "baseUrl"])
      expect(refused).toThrow(`${field}: is required`);
    expect(refused).toThrow('region: is for providers with an "endpoint"');
  });

  test("metrics call a cloud by the name in the conventions", () => {
    const vendors = CLOUDS.map(({ id }) => catalogueOf(entryOf(id)).providers[0]?.vendor);
    expect([...new Set(vendors)]).toEqual(["azure.ai.openai", "aws.bedrock", "gcp.vertex_ai"]);
  });
});

describe("Settings of clouds", () => {
  const isOpen = async (id: string, variables: Record<string, string>, fields: object = {}) => {
    const catalogue = catalogueOf(entryOf(id, fields));
    const { byId } = await forTest(openProviders(catalogue, variables));
    return byId.has(id);
  };
  const url = "http://127.0.0.1:9";

  test.each([
    ["azure-openai", {}, { baseUrl: url }],
    ["azure-openai", { AZURE_OPENAI_BASE_URL: url }, {}],
    ["bedrock-openai", { AWS_REGION: "eu-central-1" }, {}],
    ["bedrock-openai", { AWS_DEFAULT_REGION: "eu-central-1" }, {}],
    ["bedrock-openai", {}, { region: "eu-central-1" }],
    ["bedrock-openai", { AWS_BEARER_TOKEN_BEDROCK: "key", AWS_BEDROCK_BASE_URL: url }, {}],
    ["bedrock-anthropic", { AWS_REGION: "eu-central-1" }, {}],
    ["vertex-google", { GOOGLE_CLOUD_PROJECT: "example.com:project-1" }, {}],
    ["vertex-anthropic", {}, { project: "project-1", region: "us" }],
  ])("%s is configured with %j and %j", async (id, variables, fields) => {
    expect(await isOpen(id, variables, fields)).toBe(true);
  });

  test.each(CLOUDS)("$id is not configured without variables", async ({ id }) => {
    expect(await isOpen(id, {})).toBe(false);
  });

  test.each([
    [
      "azure-openai",
      { AZURE_OPENAI_API_KEY: "secret-1" },
      "AZURE_OPENAI_BASE_URL must be set, since AZURE_OPENAI_API_KEY is",
    ],
    ["azure-openai", { AZURE_OPENAI_BASE_URL: "secret-1" }, "AZURE_OPENAI_BASE_URL must be a URL"],
    ["bedrock-openai", { AWS_BEARER_TOKEN_BEDROCK: "secret-1" }, "AWS_REGION must be set"],
    ["bedrock-openai", { AWS_BEDROCK_BASE_URL: url }, "AWS_REGION must be set"],
    ["bedrock-openai", { AWS_REGION: "secret-1.example/" }, "AWS_REGION must be the name"],
    ["vertex-google", { GOOGLE_CLOUD_PROJECT: "secret-1/.." }, "GOOGLE_CLOUD_PROJECT must be"],
    [
      "vertex-google",
      { GOOGLE_CLOUD_PROJECT: "p", GOOGLE_CLOUD_LOCATION: "secret-1.example/" },
      "GOOGLE_CLOUD_LOCATION must be the name",
    ],
  ])("%s with %j stops the start, without the value", (id, variables, problem) => {
    const open = () => openProviders(catalogueOf(entryOf(id)), variables);
    expect(open).toThrow(problem);
    expect(open).not.toThrow("secret-1");
  });
});

describe("Packages of clouds", () => {
  test("all of them are installed here, and a missing one is detected", () => {
    const names = CLOUDS.flatMap(({ endpoint, dialect }) => packagesFor(endpoint, dialect, false));
    expect(missingPackages(names)).toBeUndefined();
    expect(missingPackages(["@scope/that-nobody-has"])).toContain("@scope/that-nobody-has");
  });

  test("a missing one stops the start with the command that installs it", () => {
    const names = packagesFor("bedrock", "openai", false);
    const line = missingPackages(names, (name) => name === "openai");
    expect(line).toMatch(
      /npm install --no-save --save-prod --omit=dev @aws-sdk\/credential-provider-node@[\d.]+ @smithy\/signature-v4@[\d.]+ @smithy\/hash-node@[\d.]+$/,
    );
  });

  test("none is required for other credentials if there is an API key", () => {
    expect(packagesFor("azure", "openai", true)).toEqual(["openai"]);
    expect(packagesFor("bedrock", "openai", true)).toEqual(["openai"]);
    expect(packagesFor("bedrock", "anthropic", true)).toEqual(["@anthropic-ai/bedrock-sdk"]);
  });
});
