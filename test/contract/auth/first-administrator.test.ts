import { expect, test } from "vitest";
import { newAccount, PASSWORD } from "../../support/accounts.ts";
import { freshStorage } from "../../support/database/databases.ts";
import { startProcess } from "../../support/processes/processes.ts";
import { until } from "../../support/until.ts";

const LINK = /First administrator: +(\S+)\/register#setup=(\S+)/;

/** Starts the product and waits for its message. */
async function startWith(env: Record<string, string>) {
  const started = await startProcess({ LOG_LEVEL: "warn", PASSWORD_BLOCKLIST: "off", ...env });
  await until("the end of the message", () => started.output().includes("API: "));
  const post = async (path: string, sent: object) => {
    const response = await fetch(started.url + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(sent),
    });
    const body = (await response.json()) as { code?: string; user?: { role: string } };
    return { status: response.status, body };
  };
  return { ...started, post, token: LINK.exec(started.output())?.[2] };
}

test("POST /auth/register with the token printed at startup: creates one administrator, then no more", async () => {
  const storage = await freshStorage();
  const first = await startWith(storage);
  expect(first.token).toMatch(/^[\w-]{32}$/);
  const wrong = await first.post("/auth/register", newAccount({ setupToken: "x".repeat(32) }));
  expect([wrong.status, wrong.body.code]).toEqual([400, "TOKEN_INVALID"]);
  const accounts = [1, 2, 3].map((i) =>
    newAccount({ email: `first-${i}@example.com`, setupToken: first.token }),
  );
  await Promise.all(accounts.map((account) => first.post("/auth/register", account)));
  const roles = await Promise.all(
    accounts.map(async ({ email }) => {
      const { body } = await first.post("/auth/login", { email, password: PASSWORD });
      return body.user?.role;
    }),
  );
  expect(roles.filter((role) => role === "admin")).toHaveLength(1);
  const late = await first.post("/auth/register", newAccount({ setupToken: first.token }));
  expect([late.status, late.body.code]).toEqual([400, "TOKEN_INVALID"]);
  await first.end("SIGTERM");
  const again = await startWith(storage);
  expect(again.token).toBeUndefined();
  await again.end("SIGTERM");
});

test("npm start in production: prints no link for a first administrator", async () => {
  const started = await startWith({
    ...(await freshStorage()),
    NODE_ENV: "production",
    SECRET_KEY: Buffer.alloc(32, 7).toString("base64"),
    SMTP_URL: "smtp://127.0.0.1:1",
  });
  expect(started.token).toBeUndefined();
  await started.end("SIGTERM");
});

test("POST /auth/register with the token printed at startup: works although only invited people may register", async () => {
  const env = { REGISTRATION: "invited", SIGN_UP_DOMAINS: "example.org" };
  const { post, token, end } = await startWith({ ...(await freshStorage()), ...env });
  const others = await post("/auth/register", newAccount());
  expect([others.status, others.body.code]).toEqual([403, "SIGN_UP_CLOSED"]);
  const account = newAccount({ email: "first@example.com", setupToken: token });
  expect((await post("/auth/register", account)).status).toBe(201);
  const { body } = await post("/auth/login", { email: account.email, password: PASSWORD });
  expect(body.user?.role).toBe("admin");
  const late = await post("/auth/register", newAccount({ setupToken: token }));
  expect([late.status, late.body.code]).toEqual([400, "TOKEN_INVALID"]);
  await end("SIGTERM");
});
