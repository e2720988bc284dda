import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { clientSource } from "../../scripts/tools/client.ts";
import { configurationPage, envExample } from "../../scripts/tools/configuration.ts";
import { openApiText } from "../../scripts/tools/openapi.ts";

test.each([
  [".env.example", envExample],
  ["client/src/api.ts", clientSource],
  ["docs/configuration.md", configurationPage],
  ["gen/openapi.json", openApiText],
])("Generated files: %s is current (npm run generate)", (path, generate) => {
  expect(readFileSync(path, "utf8")).toBe(generate());
});
