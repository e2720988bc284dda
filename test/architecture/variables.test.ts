import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { configurationPage, envExample } from "../../scripts/configuration.ts";
import { readConfig } from "../../services/platform/config.ts";
import type { Variable } from "../../services/platform/config-kinds.ts";
import { commonVariables, gatewayVariables, servicesVariables } from "../../services/platform/variables.ts";

const known = Object.keys({ ...commonVariables, ...gatewayVariables, ...servicesVariables });

test("Environment variables: each has a one-line description, and is in both files", () => {
  for (const [name, { about }] of Object.entries<Variable>({
    ...commonVariables,
    ...gatewayVariables,
    ...servicesVariables,
  })) {
    expect(about, name).toMatch(/^[^\n|]{5,}\.$/);
    expect(configurationPage()).toContain(`| \`${name}\` | `);
    expect(envExample()).toContain(`\n# ${name}=`);
  }
  expect(known.length).toBeGreaterThan(30);
});

test("Environment variables: are read where processes start only", () => {
  const readers = ["services", "gateway"].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && /process\.env/.test(readFileSync(`${folder}/${name}`, "utf8")))
      .map((name) => `${folder}/${name}`),
  );
  expect(readers.sort()).toEqual(["gateway/main.ts", "services/main.ts", "services/platform/process.ts"]);
});

test("Environment variables: each is named once in the error, however many are wrong", () => {
  const variablesIn = (env: Record<string, string>) => {
    return readConfig(env, "services").problems.map((problem) => problem.split(" ")[0]);
  };
  const wrong = variablesIn(Object.fromEntries(known.map((name) => [name, "\r\n\0 ?"])));
  expect(wrong.length).toBeGreaterThan(known.length / 2);
  expect(wrong).toEqual([...new Set(wrong)]);
  const far = {
    INTERNAL_SECRET: "between-the-two-of-us",
    GRPC_PORT: "99999",
    LOCKOUT_THRESHOLD: "0",
    AI_RETRIES: "11",
  };
  expect(variablesIn(far).sort()).toEqual(["AI_RETRIES", "GRPC_PORT", "LOCKOUT_THRESHOLD"]);
});
