import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { createDatabase } from "../support/databases.ts";
import { type Process, startProcess } from "../support/deployment.ts";
import { createHttpClient } from "../support/http-client.ts";
import { startSmtpServer } from "../support/smtp-server.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

const kinds = process.env.TEST_SERVERS ? ["embedded", "PostgreSQL"] : ["embedded"];
const started: Process[] = [];
afterAll(() => Promise.all(started.map((process) => process.end("SIGKILL"))));

describe.concurrent.each(kinds)("SIGKILL during a mail's delivery, on %s", (kind) => {
  test("sends at most one duplicate, with the same Message-ID", async () => {
    const smtpServer = await startSmtpServer();
    const env = {
      DATA_DIR: temporaryFolder(),
      SMTP_URL: smtpServer.url,
      ...(kind === "PostgreSQL" && { DATABASE_URL: await createDatabase() }),
    };
    smtpServer.responses.data = () => "hang"; // the mail is received, and the response is missing
    const first = await startProcess(env);
    started.push(first);
    const email = `${randomUUID()}@example.com`;
    const account = { email, password: "Correct-horse-1", name: "Ann", acceptTerms: true };
    expect((await createHttpClient(first.url).post("/auth/register", account)).status).toBe(201);
    await until("the mail", () => smtpServer.received.length === 1);
    await first.end("SIGKILL");
    smtpServer.responses.data = () => "accept";
    const second = await startProcess(env);
    started.push(second);
    await until("the mail again, after a lease", () => smtpServer.received.length === 2, 30_000);
    expect(smtpServer.received[1]?.messageId).toMatch(/^<[0-9a-f-]{36}@/);
    expect(smtpServer.received[1]?.messageId).toBe(smtpServer.received[0]?.messageId);
    expect(await second.end("SIGTERM")).toBe(0);
    const third = await startProcess(env);
    started.push(third);
    // A mail that is queued later is sent later, so that a third copy would arrive before it.
    const other = { ...account, email: `later.${email}` };
    expect((await createHttpClient(third.url).post("/auth/register", other)).status).toBe(201);
    await until("a later mail", () => smtpServer.received.some(({ to }) => to === other.email));
    expect(smtpServer.received.filter(({ to }) => to === email)).toHaveLength(2);
    await third.end("SIGTERM");
    await smtpServer.close();
  });
});
