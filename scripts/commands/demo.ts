/**
 * `npm start` with simulated providers that use the real wire formats, of AI and of sign-ins, an administrator, a user,
 * and the history of a small company, so that every page has something to show.
 */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CLIENT, startSignInProvider } from "../simulators/sign-in-provider.ts";
import { SIMULATED_DIALECTS, startProviderSimulator } from "../simulators/simulator.ts";
import { simulatedVoice } from "../simulators/voice.ts";
import { writeHistory } from "./demo-history.ts";

const PACE_MS = 22;
const PASSWORD = "Correct-horse-1";
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
  port: Number(process.env.PORT || 3_000) + 1, // the same after a restart: identities are stored under its address
});
const provider = {
  ...{ id: "demo", name: "Demo provider", kind: "oidc", issuer: signIn.issuer, emails: "trusted" },
  ...{ clientId: CLIENT.id, secretVariable: "DEMO_CLIENT_SECRET" },
};
const file = join(mkdtempSync(join(tmpdir(), "gatehouse-demo-")), "providers.json");
writeFileSync(file, JSON.stringify({ providers: [provider] }));
process.env.DEMO_CLIENT_SECRET = CLIENT.secret;
process.env.SIGN_IN_PROVIDERS ??= file;
process.env.SMTP_URL = ""; // e-mails are written to files
process.env.DATA_DIR ??= "./data/demo";
process.env.AI_CATALOG ??= "native";
process.env.LOG_LEVEL ??= "error";
await writeHistory(
  [
    { email: ADMIN, name: "Alex Winter", role: "admin" },
    { email: USER, name: "Ursula Lang", role: "user" },
  ],
  PASSWORD,
);
await import("../../gateway/main.ts");

process.stdout.write(`  Sign in as an administrator: ${ADMIN}
  or as a user:                ${USER}
  The password of both:        ${PASSWORD}
  or by the button of the Demo provider. A passkey is added under Account, Security.

`);
