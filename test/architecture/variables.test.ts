import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { configurationPage, envExample } from "../../scripts/configuration.ts";
import type { Variable } from "../../services/platform/config-kinds.ts";
import { commonVariables, gatewayVariables, servicesVariables } from "../../services/platform/variables.ts";

const variables = Object.entries<Variable>({ ...commonVariables, ...gatewayVariables, ...servicesVariables });

test("Environment variables: each has a one-line description, and is in both files", () => {
  for (const [name, { about }] of variables) {
    expect(about, name).toMatch(/^[^\n|]{5,}\.$/);
    expect(configurationPage()).toContain(`| \`${name}\` | `);
    expect(envExample()).toContain(`\n# ${name}=`);
  }
  expect(variables.length).toBeGreaterThan(30);
});

test("Environment variables: are read where processes start only", () => {
  const readers = ["services", "gateway"].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && /process\.env/.test(readFileSync(`${folder}/${name}`, "utf8")))
      .map((name) => `${folder}/${name}`),
  );
  expect(readers.sort()).toEqual(["gateway/main.ts", "services/main.ts", "services/platform/process.ts"]);
});
