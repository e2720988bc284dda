import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readConfig } from "../../services/config.ts";

/** The variables that a configuration reads. */
const variablesOf = (file: string) =>
  [...readFileSync(file, "utf8").matchAll(/^ {2}([A-Z][A-Z_]+): /gm)].map(([, name]) => name as string);

test("Environment variables: .env.example and docs/configuration.md list exactly the variables that exist", () => {
  const known = new Set(["services/config.ts", "gateway/config.ts"].flatMap(variablesOf));
  known.delete("NODE_ENV");
  const example = new Set(
    [...readFileSync(".env.example", "utf8").matchAll(/^# ?([A-Z_]+)=/gm)].map(([, name]) => name as string),
  );
  const documented = readFileSync("docs/configuration.md", "utf8");
  expect(known.size).toBeGreaterThan(30);
  expect([...known].filter((name) => !example.has(name))).toEqual([]);
  expect([...known].filter((name) => !documented.includes(`\`${name}\``))).toEqual([]);
  const dynamic = /^(OPENAI|ANTHROPIC|GEMINI|MISTRAL)_(API_KEY|BASE_URL)$/;
  expect([...example].filter((name) => !known.has(name) && !dynamic.test(name))).toEqual([]);
});

test("Environment variables: are read in the two main files only", () => {
  const readers = ["services", "gateway"].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && /process\.env/.test(readFileSync(`${folder}/${name}`, "utf8")))
      .map((name) => `${folder}/${name}`),
  );
  expect(readers.sort()).toEqual(["gateway/main.ts", "services/main.ts"]);
});

test("Environment variables: each is named once in the error, however many are wrong", () => {
  const blamed = (env: Record<string, string>) => {
    const read = readConfig(env, { apart: true });
    return "problems" in read ? read.problems.map((problem) => problem.split(" ")[0]) : [];
  };
  const names = variablesOf("services/config.ts");
  const wrong = blamed(Object.fromEntries(names.map((name) => [name, "\r\n\0 ?"])));
  expect(wrong.length).toBeGreaterThan(names.length / 2);
  expect(wrong).toEqual([...new Set(wrong)]);
  const far = {
    INTERNAL_SECRET: "between-the-two-of-us",
    GRPC_PORT: "99999",
    LOCKOUT_THRESHOLD: "0",
    AI_RETRIES: "11",
  };
  expect(blamed(far).sort()).toEqual(["AI_RETRIES", "GRPC_PORT", "LOCKOUT_THRESHOLD"]);
});
