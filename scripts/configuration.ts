/** Generates `docs/configuration.md` and `.env.example` from the tables of variables. Run by `npm run generate`. */
import { readFileSync, writeFileSync } from "node:fs";
import type { Variable } from "../services/platform/config-kinds.ts";
import { commonVariables, gatewayVariables, servicesVariables } from "../services/platform/variables.ts";

const groups: [title: string, variables: Record<string, Variable>][] = [
  ["Every process", commonVariables],
  ["Gateway", gatewayVariables],
  ["Services", servicesVariables],
  ["AI providers", providerVariables()],
];

/** The variables that the shipped catalogue names. */
function providerVariables(): Record<string, Variable> {
  type Provider = { id: string; keyVariable: string; baseUrlVariable: string; baseUrl: string };
  const { providers } = JSON.parse(readFileSync("services/ai/catalogue/neutral.json", "utf8"));
  const entries = (providers as Provider[]).flatMap(({ id, keyVariable, baseUrlVariable, baseUrl }) => [
    [keyVariable, { shown: "none", about: `API key. Activates \`${id}\`.` }],
    [baseUrlVariable, { shown: `\`${baseUrl}\``, fallback: baseUrl, about: `Base URL of \`${id}\`.` }],
  ]);
  return Object.fromEntries(entries);
}

const table = (variables: Record<string, Variable>) => [
  "| variable | default | meaning |",
  "|---|---|---|",
  ...Object.entries(variables).map(([name, { shown, about }]) => `| \`${name}\` | ${shown} | ${about} |`),
];

/** The text of `docs/configuration.md`. */
export const configurationPage = (): string =>
  [
    "# Configuration",
    "",
    "<!-- Generated from services/platform/variables.ts by `npm run generate`. Do not edit. -->",
    "",
    "Settings are environment variables. `.env` is read if it exists; variables that are set already win.",
    "Durations read `500ms`, `30s`, `15m`, `12h`, `7d`. A blank variable counts as not set.",
    "The start fails with one message that lists every wrong variable and what is allowed. It never contains a secret.",
    "A gateway alone (`SERVICES_URL`) reads the first two tables, the services alone the first and the last two.",
    ...groups.flatMap(([title, variables]) => ["", `## ${title}`, "", ...table(variables)]),
    "",
  ].join("\n");

/** The text of `.env.example`. */
export const envExample = (): string =>
  [
    "# Every variable, with its default. Copy to .env and uncomment what you change. docs/configuration.md explains them.",
    ...groups.flatMap(([title, variables]) => [
      "",
      `# -- ${title.toLowerCase()}`,
      ...Object.entries(variables).map(([name, { fallback = "" }]) => `# ${name}=${fallback}`),
    ]),
    "",
  ].join("\n");

if (process.argv[1] === import.meta.filename) {
  writeFileSync("docs/configuration.md", configurationPage());
  writeFileSync(".env.example", envExample());
}
