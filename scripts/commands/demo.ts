/**
 * `npm start` with four simulated providers that use the real wire formats, an administrator, and a
 * user with a verified address. Prints the address of the web app, and `curl` lines that work as
 * printed.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { SIMULATED_DIALECTS, startProviderSimulator } from "../simulators/simulator.ts";

const PACE_MS = 60;
const PASSWORD = "Correct-horse-1";
const [ADMIN, USER] = ["admin@example.com", "user@example.com"];

for (const dialect of SIMULATED_DIALECTS)
  Object.assign(process.env, (await startProviderSimulator({ dialect, paceMs: PACE_MS })).env);
process.env.SMTP_URL = ""; // the demo reads the link from the file of the e-mail
if (Number(process.env.PORT) === 0) process.env.PORT = ""; // the demo has to know the port
process.env.DATA_DIR ??= "./data/demo";
process.env.ADMIN_EMAIL ??= ADMIN;
process.env.ADMIN_PASSWORD ??= PASSWORD;
await import("../../gateway/main.ts");

const url = `http://127.0.0.1:${process.env.PORT || 3000}`;
/** Same origin as links in e-mails, so that a browser that opens one stays signed in. */
const webUrl = process.env.PUBLIC_URL ?? url.replace("127.0.0.1", "localhost");
await addVerifiedUser();
process.stdout.write(`
${process.env.WEB?.trim() === "off" ? "" : `Open ${webUrl}/ and sign in.\n`}An administrator: ${process.env.ADMIN_EMAIL}    a user: ${USER}    the password of both: ${PASSWORD}

# sign in, and keep the access token
TOKEN=$(curl -s ${url}/auth/login -H 'Content-Type: application/json' -d '{"email":"${USER}","password":"${PASSWORD}"}' | sed 's/.*"accessToken":"\\([^"]*\\)".*/\\1/')

# the profile, the providers, a complete reply, a reply as it comes
curl -s ${url}/user/profile -H "Authorization: Bearer $TOKEN"
curl -s ${url}/ai/providers -H "Authorization: Bearer $TOKEN"
curl -s ${url}/ai/chat -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{"provider":"provider-a","messages":[{"role":"user","content":"Hello!"}]}'
curl -sN ${url}/ai/stream -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{"provider":"provider-d","messages":[{"role":"user","content":"Hello!"}]}'

`);

async function addVerifiedUser(): Promise<void> {
  const registered = await post("/auth/register", {
    email: USER,
    password: PASSWORD,
    name: "Ursula",
    acceptTerms: true,
  });
  if (registered.status !== 201) return; // from an earlier demo in the same DATA_DIR
  for (
    let token: string | undefined;
    !token;
    await new Promise((resolve) => setTimeout(resolve, 50))
  ) {
    token = mailedToken();
    if (token) await post("/auth/verify-email", { token });
  }
}

function mailedToken(): string | undefined {
  const folder = join(process.env.DATA_DIR as string, "mail");
  for (const name of readdirSync(folder).filter((file) => file.endsWith(".eml"))) {
    const letter = readFileSync(join(folder, name), "utf8")
      .replaceAll("=\r\n", "")
      .replaceAll("=3D", "=");
    if (letter.includes(`To: ${USER}\r\n`)) return /#token=(\S+)/.exec(letter)?.[1];
  }
  return undefined;
}

function post(path: string, body: unknown): Promise<Response> {
  return fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}
