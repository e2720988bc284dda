import { randomUUID } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { createDatabase } from "../support/databases.ts";
import { type Process, startProcess } from "../support/deployment.ts";
import { createHttpClient } from "../support/http-client.ts";
import { startSmtpServer } from "../support/smtp-server.ts";
import { until } from "../support/until.ts";

const kinds = process.env.TEST_SERVERS ? ["embedded", "PostgreSQL"] : ["embedded"];
const started: Process[] = [];
afterAll(() => Promise.all(started.map((process) => process.end("SIGKILL"))));

describe.concurrent.each(kinds)("SIGKILL during a mail's delivery, on %s", (kind) => {
  test("sends at most one duplicate, with the same Message-ID", async () => {
    const smtpServer = await startSmtpServer();
    const env = {
      DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-mail-kill-")),
      SMTP_URL: smtpServer.url,
      ...(kind === "PostgreSQL" && { DATABASE_URL: await createDatabase(`mail_${randomUUID().slice(0, 8)}`) }),
    };
    smtpServer.responses.data = () => "hang"; // the letter is there, and nobody is told
    const first = await startProcess(env);
    started.push(first);
    const email = `${randomUUID()}@example.com`;
    const account = { email, password: "Correct-horse-1", name: "Ann", acceptTerms: true };
    expect((await createHttpClient(first.url).post("/auth/register", account)).status).toBe(201);
    await until("the letter", () => smtpServer.received.length === 1);
    await first.end("SIGKILL");
    smtpServer.responses.data = () => "accept";
    const second = await startProcess(env);
    started.push(second);
    await until(
      "the letter again, once the lease of the dead has run out",
      () => smtpServer.received.length === 2,
      30_000,
    );
    expect(smtpServer.received[1]?.messageId).toMatch(/^<[0-9a-f-]{36}@/);
    expect(smtpServer.received[1]?.messageId).toBe(smtpServer.received[0]?.messageId);
    expect(await second.end("SIGTERM")).toBe(0);
    const third = await startProcess(env);
    started.push(third);
    // Whatever is queued later goes out later: were there a third copy, it would be here by then.
    const other = { ...account, email: `later.${email}` };
    expect((await createHttpClient(third.url).post("/auth/register", other)).status).toBe(201);
    await until("a later letter", () => smtpServer.received.some(({ to }) => to === other.email));
    expect(smtpServer.received.filter(({ to }) => to === email)).toHaveLength(2);
    await third.end("SIGTERM");
    await smtpServer.close();
  });
});
