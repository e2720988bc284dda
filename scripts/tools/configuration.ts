/**
 * Generates `docs/configuration.md` and `.env.example` from the tables of variables. Run by `npm
 * run generate`.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { CLOUD_VARIABLES } from "../../services/ai/catalogue-clouds.ts";
import shipped from "../../services/external/providers.json" with { type: "json" };
import { variablesOfProvider } from "../../services/external/registry.ts";
import { variableOf, variablesOf } from "../../services/platform/config/config-kinds.ts";
import {
  commonVariables,
  gatewayVariables,
  servicesVariables,
} from "../../services/platform/config/variables.ts";

/** An environment variable, with its default as a value and as it is shown. */
type Row = { name: string; fallback: string; shown: string; about: string };

const groups: [title: string, rows: Row[]][] = [
  ["Every process", rowsOf(commonVariables)],
  ["Gateway", rowsOf(gatewayVariables)],
  ["Services", rowsOf(servicesVariables)],
  ["AI providers", providerRows()],
  ["AI providers in clouds", cloudRows()],
  ["Sign-in providers", signInProviderRows()],
];

function rowsOf(variables: Record<string, z.ZodType>): Row[] {
  return Object.entries(variables).map(([setting, schema]) => {
    const fallback = schema instanceof z.ZodPrefault ? String(schema.def.defaultValue) : "";
    const { shown = fallback ? `\`${fallback}\`` : "none", description } = schema.meta() ?? {};
    const names = variablesOf(setting, schema);
    const usual = variableOf(setting);
    return {
      name: names.includes(usual) ? usual : (names[0] ?? usual),
      fallback,
      shown: String(shown),
      about: String(description),
    };
  });
}

/** The variables that the shipped catalogue names. */
function providerRows(): Row[] {
  type Provider = { id: string; keyVariable: string; baseUrlVariable: string; baseUrl: string };
  const { providers } = JSON.parse(readFileSync("services/ai/catalogue/neutral.json", "utf8"));
  return (providers as Provider[]).flatMap(({ id, keyVariable, baseUrlVariable, baseUrl }) => [
    {
      name: keyVariable,
      fallback: "",
      shown: "none",
      about: `API key, or several separated by commas. Activates \`${id}\`.`,
    },
    {
      name: baseUrlVariable,
      fallback: baseUrl,
      shown: `\`${baseUrl}\``,
      about: `Base URL of \`${id}\`, with or without the API version or the request path.`,
    },
  ]);
}

/** The variables of providers in clouds, which the shipped catalogues do not have. */
function cloudRows(): Row[] {
  return Object.entries(CLOUD_VARIABLES).map(([name, about]) => ({
    ...{ name, fallback: "", shown: "none" },
    about: `${about} See [clouds.md](clouds.md).`,
  }));
}

/** The variables of the shipped sign-in providers. */
function signInProviderRows(): Row[] {
  const row = (name: string, about: string, fallback = "") => ({
    name,
    fallback,
    shown: fallback ? `\`${fallback}\`` : "none",
    about,
  });
  return shipped.providers.flatMap((provider) => {
    const { clientId, secrets, urls } = variablesOfProvider(provider);
    const where = `[sign-in.md](sign-in.md#${provider.id})`;
    return [
      row(clientId, `Client id. Activates \`${provider.id}\`. See ${where}.`),
      ...secrets.map((name) => row(name, `Required with \`${clientId}\`.`)),
      ...Object.entries(urls).map(([name, fallback]) =>
        row(name, `URL of ${provider.name}, if it is not the default.`, fallback),
      ),
    ];
  });
}

const table = (rows: Row[]) => [
  "| variable | default | meaning |",
  "|---|---|---|",
  ...rows.map(({ name, shown, about }) => `| \`${name}\` | ${shown} | ${about} |`),
];

/** The text of `docs/configuration.md`. */
export const configurationPage = (): string =>
  [
    "# Configuration",
    "",
    "<!-- Generated from services/platform/config/variables.ts by `npm run generate`. Do not edit. -->",
    "",
    "Settings are environment variables. They are also read from `.env` if it exists; the environment takes precedence.",
    "Durations are written as `500ms`, `30s`, `15m`, `12h` or `7d`. A blank variable counts as not set.",
    "If a variable is invalid, startup fails with a message that lists all invalid variables and what is allowed. It never contains a secret.",
    "A standalone gateway (`SERVICES_URL`) reads the first two tables, standalone services the first and the last four.",
    ...groups.flatMap(([title, rows]) => ["", `## ${title}`, "", ...table(rows)]),
    "",
  ].join("\n");

/** The text of `.env.example`. */
export const envExample = (): string =>
  [
    "# Every variable, with its default. Copy to .env and uncomment what you change. docs/configuration.md explains them.",
    ...groups.flatMap(([title, rows]) => [
      "",
      `# -- ${title.toLowerCase()}`,
      ...rows.map(({ name, fallback }) => `# ${name}=${fallback}`),
    ]),
    "",
  ].join("\n");

if (process.argv[1] === import.meta.filename) {
  writeFileSync("docs/configuration.md", configurationPage());
  writeFileSync(".env.example", envExample());
}
