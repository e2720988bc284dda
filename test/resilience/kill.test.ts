import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, describe, expect, test } from "vitest";
import { startProviderSimulator } from "../../scripts/simulators/simulator.ts";
import { signInAt } from "../support/accounts.ts";
import { conversationOf } from "../support/ai-calls.ts";
import { createDatabase, freshStorage } from "../support/databases.ts";
import { type Process, startProcess } from "../support/deployment.ts";
import { createHttpClient, postJson } from "../support/http-client.ts";
import { folderMailbox } from "../support/mailbox.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

/** The kills of an ordinary run. A restart takes seconds; `KILLS=50` runs more. */
const KILLS = Number(process.env.KILLS ?? 1);
const kinds = process.env.TEST_SERVERS ? ["embedded", "PostgreSQL"] : ["embedded"];
const password = "Correct-horse-1";

let running: Process | undefined;
afterAll(() => running?.end("SIGKILL"));

describe.each(kinds)("SIGKILL right after a 201, on %s", (kind) => {
  test(`keeps account and e-mail (kills: ${KILLS})`, async () => {
    const dataDir = temporaryFolder();
    const database = kind === "embedded" ? {} : { DATABASE_URL: await createDatabase("kill") };
    const env = { DATA_DIR: dataDir, RATE_LIMITS: "off", ...database };
    const mail = folderMailbox(dataDir);
    running = await startProcess(env);
    for (let kill = 0; kill < KILLS; kill++) {
      const email = `kill-${kill}@example.com`;
      const account = { email, password, name: "Ann", acceptTerms: true };
      const { status } = await createHttpClient(running.url).post("/auth/register", account);
      expect(await running.end("SIGKILL")).toBe("SIGKILL");
      expect(status).toBe(201);
      running = await startProcess(env);
      expect((await createHttpClient(running.url).post("/auth/login", { email, password })).status).toBe(200);
      const { token } = await mail.emailTo(email); // at once, or after the lease of the killed worker
      expect(await createHttpClient(running.url).post("/auth/verify-email", { token })).toMatchObject({ status: 200 });
    }
    expect(await running.end("SIGTERM")).toBe(0);
  }, 600_000);
});

describe.each(kinds)("SIGKILL during a stream, on %s", (kind) => {
  test("keeps the usage row", async () => {
    const simulator = await startProviderSimulator({ dialect: "openai" });
    const database = kind === "embedded" ? {} : { DATABASE_URL: await createDatabase("usage") };
    const env = { DATA_DIR: temporaryFolder(), ...database, ...simulator.env };
    running = await startProcess(env);
    const { user, accessToken } = await signInAt(running.url);
    const response = await postJson(`${running.url}/ai/stream`, conversationOf("case: silent-midway"), accessToken);
    const reader = response.body?.getReader();
    await reader?.read();
    await new Promise((resolve) => setTimeout(resolve, 500)); // rows are written some milliseconds later
    await running.end("SIGKILL");
    await reader?.cancel().catch(() => {});
    running = await startProcess(env);
    const httpClient = createHttpClient(running.url);
    const again = (await httpClient.post("/auth/login", user.credentials)).body;
    const { body } = await httpClient.get("/user/usage", again.accessToken);
    expect(body).toMatchObject([{ provider: "provider-a", model: "model-a-1", calls: 1, estimatedCalls: 1 }]);
    expect(body[0].inputTokens).toBeGreaterThan(0);
    expect(await running.end("SIGTERM")).toBe(0);
    await simulator.close();
  });
});

test("Process: refuses a data folder that another process uses", async () => {
  const env = { DATA_DIR: temporaryFolder() };
  running = await startProcess(env);
  await expect(startProcess(env)).rejects.toThrow(/is in use by another Gatehouse process/);
  expect(await running.end("SIGTERM")).toBe(0);
  running = await startProcess(env);
  expect(await running.end("SIGINT")).toBe(0);
});

test("Process: finishes open requests on SIGTERM, also a repeated one", async () => {
  running = await startProcess(await freshStorage());
  const { url, end } = running;
  const body = JSON.stringify({ email: "ann@example.com", password });
  const request = connect(Number(new URL(url).port), "127.0.0.1");
  const head = `POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  request.write(`${head}\r\nConnection: close\r\n\r\n${body.slice(0, 10)}`);
  await until("the request to arrive", async () => (await fetch(`${url}/health/live`)).ok);
  const ended = end("SIGINT");
  await until("the end to begin", async () => (await fetch(`${url}/health/ready`)).status === 503);
  for (const signal of ["SIGINT", "SIGTERM", "SIGTERM"] as const) end(signal);
  await until("the process to respond", async () => (await fetch(`${url}/health/live`)).ok);
  request.write(body.slice(10));
  expect(await text(request)).toMatch(/^HTTP\/1\.1 401 /);
  expect(await ended).toBe(0);
});

test("Process: ends at once on a second SIGINT, but not on a repetition within a moment", async () => {
  running = await startProcess(await freshStorage());
  const { url, end } = running;
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
