import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, describe, expect, test } from "vitest";
import { accountsAt, PASSWORD } from "../support/accounts.ts";
import { conversationOf, startSuiteProvider } from "../support/ai/calls.ts";
import { createDatabase, freshStorage } from "../support/database/databases.ts";
import { createHttpClient, postJson } from "../support/http/client.ts";
import { post } from "../support/http/raw.ts";
import { smtpMailbox } from "../support/mail/mailbox.ts";
import { type Process, startProcess } from "../support/processes/processes.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

/**
 * The kills right after a 201 of an ordinary run. A restart takes seconds; `KILLS=50` runs more.
 */
const KILLS = Number(process.env.KILLS ?? 1);
const kinds =
  process.env.TEST_SERVERS && process.env.TEST_FULL ? ["embedded", "PostgreSQL"] : ["embedded"];
const provider = await startSuiteProvider();

const started: Process[] = [];
async function start(env: Record<string, string>): Promise<Process> {
  const process = await startProcess(env);
  started.push(process);
  return process;
}
afterAll(() => Promise.all(started.map((process) => process.end("SIGKILL"))));

describe.concurrent.each(kinds)("SIGKILL, on %s", (kind) => {
  test(`keeps accounts and usage, and sends every e-mail, twice if killed during its delivery (kills: ${KILLS})`, async () => {
    const smtpServer = await smtpMailbox();
    const env = {
      DATA_DIR: temporaryFolder(),
      RATE_LIMITS: "off",
      SMTP_URL: smtpServer.url,
      ...provider.env,
      ...(kind === "PostgreSQL" && { DATABASE_URL: await createDatabase() }),
    };
    smtpServer.responses.data = () => "hang"; // the mail is received, and the response is missing
    let running = await start(env);
    if (kind === "embedded")
      await expect(startProcess(env)).rejects.toThrow(/is in use by another Gatehouse process/);
    const { user, accessToken } = await accountsAt(running.url).signIn();
    await until("the mail", () => smtpServer.received.length === 1);
    const response = await postJson(
      `${running.url}/ai/stream`,
      conversationOf("case: silent-midway"),
      accessToken,
    );
    const reader = response.body?.getReader();
    await reader?.read();
    const usageOf = async (token: string) =>
      (await createHttpClient(running.url).get("/user/usage", token)).body;
    await until("the row of the open call", async () => (await usageOf(accessToken)).length === 1);
    for (let kill = 0; kill < KILLS; kill++) {
      const another = await accountsAt(running.url).addUser();
      expect(await running.end("SIGKILL")).toBe("SIGKILL");
      smtpServer.responses.data = () => "accept";
      running = await start(env);
      await accountsAt(running.url).signIn(another);
      const { token } = await smtpServer.emailTo(another.email); // at once, or after a lease
      expect(
        await createHttpClient(running.url).post("/auth/verify-email", { token }),
      ).toMatchObject({ status: 200 });
    }
    await reader?.cancel().catch(() => {});
    const again = await accountsAt(running.url).signIn(user);
    const usage = await usageOf(again.accessToken);
    expect(usage).toMatchObject([
      { provider: "provider-a", model: "model-a-1", calls: 1, estimatedCalls: 1 },
    ]);
    expect(usage[0].inputTokens).toBeGreaterThan(0);

    const copies = () =>
      smtpServer.received.filter(({ to }) => to === user.email).map(({ messageId }) => messageId);
    await until("the mail again, after a lease", () => copies().length === 2);
    expect(copies()[0]).toMatch(/^<[0-9a-f-]{36}@/);
    expect(copies()[1]).toBe(copies()[0]);
    expect(await running.end("SIGTERM")).toBe(0);
    running = await start(env);
    // A mail that is queued later is sent later, so that a third copy would arrive before it.
    const later = await accountsAt(running.url).addUser();
    await until("a later mail", () => smtpServer.received.some(({ to }) => to === later.email));
    expect(copies()).toHaveLength(2);
    await running.end("SIGTERM");
    await smtpServer.close();
  }, 600_000);
});

test("Process: finishes open requests on SIGINT and repeated SIGTERM", async () => {
  const { url, end } = await start(await freshStorage());
  const bytes = post(
    "/auth/login",
    { email: "ann@example.com", password: PASSWORD },
    { headers: "Connection: close\r\n" },
  );
  const request = connect(Number(new URL(url).port), "127.0.0.1");
  request.write(bytes.slice(0, -10));
  await until("the request to arrive", async () => (await fetch(`${url}/health/live`)).ok);
  const ended = end("SIGINT");
  await until("the end to begin", async () => (await fetch(`${url}/health/ready`)).status === 503);
  for (const signal of ["SIGINT", "SIGTERM", "SIGTERM"] as const) end(signal);
  await until("the process to respond", async () => (await fetch(`${url}/health/live`)).ok);
  request.write(bytes.slice(-10));
  expect(await text(request)).toMatch(/^HTTP\/1\.1 401 /);
  expect(await ended).toBe(0);
});

test("Process: ends immediately on a second SIGINT, unless it follows within a second", async () => {
  const { url, end } = await start(await freshStorage());
  const request = connect(Number(new URL(url).port), "127.0.0.1");
  request.on("error", () => {}); // of the unfinished request
  request.write("POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n");
  await until("the request to arrive", async () => (await fetch(`${url}/health/live`)).ok);
  const begun = performance.now();
  const ended = end("SIGINT");
  end("SIGINT");
  const code = await until("the process to end", () => {
    end("SIGINT");
    return Promise.race([ended, undefined]);
  });
  expect(code).toBe(130);
  expect(performance.now() - begun).toBeGreaterThan(1_000);
});
