/**
 * `npm start` with simulated providers that use the real wire formats, of AI and of sign-ins, an
 * administrator, a user, and the history of a small company, so that every page has something to
 * show.
 */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listenNear } from "../simulators/listen.ts";
import { writePlaces } from "../simulators/places.ts";
import { CLIENT, startSignInProvider } from "../simulators/sign-in-provider.ts";
import { SIMULATED_DIALECTS, startProviderSimulator } from "../simulators/simulator.ts";
import { simulatedVoice } from "../simulators/voice.ts";
import { writeHistory } from "./demo-history.ts";
import { NETWORKS } from "./demo-people.ts";

const PACE_MS = 22;
const PASSWORD = "Correct-horse-1";
/** The catalogues that the demo completes, with prices of models whose real ones move. */
const SHIPPED = ["native", "neutral"];
const INVENTED_PRICES: Record<string, object> = {
  "gemini-3.8-flash": { input: 0.75, output: 3.75 },
  "mistral-large-latest": { input: 2, output: 6 },
  "mistral-medium-latest": { input: 0.4, output: 2 },
  "mistral-small-latest": { input: 0.1, output: 0.3 },
  "mistral-embed": { input: 0.1, output: 0 },
};
/** Aliases, by the names that the providers give to their targets. */
const ALIASES = { support: ["gpt-6.1-terra", "claude-haiku-5-5"], reports: ["claude-sonnet-5-5"] };
const PORT = Number(process.env.PORT || 3_000);
/**
 * The ports that follow, if they are free. A restart needs the same ones: identities and the
 * webhook are stored with them.
 */
const [SIGN_IN_PORT, WEBHOOK_PORT] = [1, 2, 3]
  .map((distance) => PORT + distance)
  .filter((port) => String(port) !== process.env.GRPC_PORT);
const FOLDER = mkdtempSync(join(tmpdir(), "gatehouse-demo-"));
const [ADMIN, USER] = ["admin@example.com", "user@example.com"];

for (const dialect of SIMULATED_DIALECTS) {
  const simulator = await startProviderSimulator({
    dialect,
    paceMs: PACE_MS,
    voice: simulatedVoice,
  });
  Object.assign(process.env, simulator.env);
}
const signIn = await startSignInProvider({
  people: [
    { sub: "nora", name: "Nora Lind", email: "nora.lind@example.org" },
    { sub: "ursula", name: "Ursula Lang", email: USER },
  ],
  port: SIGN_IN_PORT,
});
const provider = {
  ...{ id: "demo", name: "Demo provider", kind: "oidc", issuer: signIn.issuer, emails: "trusted" },
  ...{ clientId: CLIENT.id, secretVariable: "DEMO_CLIENT_SECRET" },
};
const file = join(FOLDER, "providers.json");
writeFileSync(file, JSON.stringify({ providers: [provider] }));
process.env.DEMO_CLIENT_SECRET = CLIENT.secret;
process.env.SIGN_IN_PROVIDERS ??= file;
process.env.SMTP_URL = ""; // e-mails are written to files
process.env.DATA_DIR ??= "./data/demo";
const catalogue = process.env.AI_CATALOG ?? "native";
process.env.AI_CATALOG = SHIPPED.includes(catalogue) ? completeCatalogue(catalogue) : catalogue;
process.env.LOG_LEVEL ??= "error";
if (process.env.GEOIP_DB === undefined) {
  process.env.GEOIP_DB = join(FOLDER, "places.mmdb");
  writePlaces(process.env.GEOIP_DB, NETWORKS);
}
const webhookUrl = await startWebhookReceiver();
process.env.WEBHOOK_NETWORKS ??= "127.0.0.1";
await writeHistory(
  [
    { email: ADMIN, name: "Alex Winter", role: "admin" },
    { email: USER, name: "Ursula Lang", role: "user" },
  ],
  PASSWORD,
  webhookUrl,
);
await import("../../gateway/main.ts");

process.stdout.write(`  Sign in as an administrator: ${ADMIN}
  or as a user:                ${USER}
  The password of both:        ${PASSWORD}
  or by the button of the Demo provider. A passkey is added under Account, Security.

`);

/**
 * Writes a shipped catalogue with a price for each model, so that costs are complete and budgets
 * refuse none, and with the aliases that the programs of the history call.
 */
function completeCatalogue(name: string): string {
  const shipped = new URL(`../../services/ai/catalogue/${name}.json`, import.meta.url);
  const { providers, ...others }: ShippedCatalogue = JSON.parse(readFileSync(shipped, "utf8"));
  for (const model of providers.flatMap(({ models }) => models))
    model.price ??= INVENTED_PRICES[model.upstream];
  const targetsOf = (upstreams: string[]) =>
    providers.flatMap(({ id, models }) =>
      models
        .filter(({ upstream }) => upstreams.includes(upstream))
        .map((model) => ({ provider: id, model: model.name })),
    );
  const aliases = Object.entries(ALIASES).map(([alias, upstreams]) => ({
    ...{ name: alias, targets: targetsOf(upstreams) },
  }));
  const path = join(FOLDER, "catalogue.json");
  writeFileSync(path, JSON.stringify({ ...others, providers, aliases }));
  return path;
}

type ShippedCatalogue = {
  providers: {
    id: string;
    models: { name: string; upstream: string; price?: object | undefined }[];
  }[];
};

/** Accepts every event that webhooks post. */
async function startWebhookReceiver(): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().on("end", () => response.writeHead(204).end());
  });
  const origin = await listenNear(server, WEBHOOK_PORT);
  server.unref();
  return `${origin}/alerts`;
}
