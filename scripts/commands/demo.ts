/**
 * `npm start` with simulated providers that use the real wire formats, an administrator, a user, and
 * the history of a small company, so that every page has something to show.
 */
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

`);
