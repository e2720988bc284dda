import { createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { NOTICE } from "../../../scripts/simulators/voice.ts";
import { freePort } from "../../support/network/sockets.ts";
import { startProcess } from "../../support/processes/processes.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

/** The body of an answer, of any shape. */
// biome-ignore lint/suspicious/noExplicitAny: the assertions check it
const json = async (answer: Response): Promise<any> => answer.json();

/**
 * Ports for the demo whose neighbours are in use: it prefers those for its sign-in provider and the
 * receiver of its webhook.
 */
async function crowdedPorts() {
  const port = Number(await freePort());
  const neighbour = createServer();
  await new Promise<void>((resolve, reject) => {
    neighbour.once("error", reject).listen(port + 2, "127.0.0.1", resolve);
  });
  onTestFinished(() => void neighbour.close());
  return { PORT: String(port), GRPC_PORT: String(port + 1) };
}

test("npm run demo: prints an address and two working accounts, with a history, passkeys and a sign-in provider", async () => {
  const env = { DATA_DIR: temporaryFolder(), SMTP_URL: "smtp://a:1", ...(await crowdedPorts()) };
  const demo = await startProcess(env, "scripts/commands/demo.ts");
  await until("the accounts", () => /password of both: +(\S+)/.test(demo.output()));
  const emails = demo.output().match(/\S+@example\.com/g) ?? [];
  const [, password = ""] = /password of both: +(\S+)/.exec(demo.output()) ?? [];
  const post = async (path: string, body: object, token?: string) =>
    fetch(demo.url + path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(token && { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(body),
    });
  const answers = await Promise.all(
    emails.map(async (email) => json(await post("/auth/login", { email, password }))),
  );
  expect(answers.map(({ user }) => user.role)).toEqual(["admin", "user"]);
  const token: string = answers[0].accessToken;
  const get = async (path: string) =>
    json(await fetch(demo.url + path, { headers: { authorization: `Bearer ${token}` } }));
  expect(await get("/ai/providers")).toMatchObject(Array(4).fill({ configured: true }));
  expect((await get("/admin/users?limit=1&serviceAccount=false")).total).toBeGreaterThan(100);
  const week = await get("/admin/overview?period=7d");
  const kinds = week.attention.map(({ kind }: { kind: string }) => kind);
  for (const kind of ["locked-accounts", "failed-emails", "provider-failing", "webhook-disabled"])
    expect(kinds).toContain(kind);
  expect(week.aiCost).toMatchObject({ currency: "USD", unpricedCalls: 0 });
  expect(week.budgets).toHaveLength(1);
  const locked = await get("/admin/audit-logs?limit=1&event=auth.locked");
  expect(locked.items[0].location).toMatch(/\w, \w/);
  expect((await get("/admin/budgets")).items.length).toBeGreaterThan(3);
  expect((await get("/admin/api-keys")).items.length).toBeGreaterThan(3);
  const posted = "/admin/webhook-deliveries?status=delivered&event=admin.user_suspended";
  await until("the webhook", async () => (await get(posted)).total === 2);
  const old = new Date(Date.now() - 60 * 86_400_000).toISOString();
  expect((await get(`/admin/audit-logs?limit=1&to=${old}`)).total).toBeGreaterThan(20);
  expect(await get(`/admin/usage?from=${old}`)).not.toHaveLength(0);
  const user = { role: "user", content: "Write a function that searches a sorted list." };
  const first = await post("/ai/chat", { provider: "openai", messages: [user] }, token);
  const { content } = await json(first);
  expect(content).toMatch(/```typescript\n[\s\S]*\n```[\s\S]*\|:--\|--:\|/);
  expect(content.startsWith(NOTICE)).toBe(true);
  const messages = [user, { role: "assistant", content }, user];
  const second = await post("/ai/chat", { provider: "anthropic", messages }, token);
  expect((await json(second)).content).not.toContain(NOTICE);
  const methods = await (await fetch(`${demo.url}/auth/sign-in-methods`)).json();
  expect(methods).toMatchObject({
    passkey: true,
    providers: [{ id: "demo", name: "Demo provider" }],
  });
  const start = { provider: "demo", acceptTerms: true };
  const begun = await post("/auth/start-external", start);
  const [cookie = ""] = begun.headers.getSetCookie().map((line) => line.split(";")[0]);
  const { authorizationUrl } = await json(begun);
  const page = await (await fetch(authorizationUrl)).text();
  const [, choice = ""] = /href="([^"]*)">Nora Lind/.exec(page) ?? [];
  const chosen = new URL(choice.replaceAll("&#38;", "&"), authorizationUrl);
  const redirect = { redirect: "manual" as const };
  const back = await fetch(chosen, redirect);
  const callback = await fetch(back.headers.get("location") ?? "", redirect);
  const answer = new URLSearchParams(new URL(callback.headers.get("location") ?? "").hash.slice(1));
  const finished = await fetch(`${demo.url}/auth/finish-external`, {
    method: "POST",
    headers: { "content-type": "application/json", cookie },
    body: JSON.stringify(Object.fromEntries(answer)),
  });
  expect(await json(finished)).toMatchObject({ user: { name: "Nora Lind", role: "user" } });
  expect(await demo.end("SIGTERM")).toBe(0);
});
