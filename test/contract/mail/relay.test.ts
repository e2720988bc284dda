import { hostname } from "node:os";
import { expect, test } from "vitest";
import { createMailTransport } from "../../../services/mail/transport.ts";
import { requireConfig } from "../../../services/platform/config/config.ts";
import { startSuiteApp } from "../../support/app.ts";
import { silent } from "../../support/log.ts";
import { startSlowSmtpServer } from "../../support/mail/slow-smtp-server.ts";
import { forSuite, forTest } from "../../support/suites.ts";
import { until } from "../../support/until.ts";

const GOOGLE = "421 4.7.0 Try again later, closing connection. (EHLO) a1sor123.4 - gsmtp";

const server = await forSuite(startSlowSmtpServer());
const app = await startSuiteApp({
  mode: "embedded",
  env: {
    SMTP_URL: server.url,
    PUBLIC_URL: "https://auth.example.com",
    MAIL_FROM: "Gatehouse <no-reply@example.com>",
    MAIL_RETRY_BASE: "1h",
  },
});

/** Registers an account and waits until its mail has a status. */
async function mailOf(status: string, withinMs?: number) {
  const { email } = await app.addUser();
  return until(
    `the mail to be ${status}`,
    async () => {
      const select = `select id, status, attempts from emails where "to" = ?`;
      const [row] = await app.sql<{ id: string; status: string; attempts: number }>(select, [
        email,
      ]);
      return row?.status === status && row.attempts > 0 ? { ...row, email } : undefined;
    },
    withinMs,
  );
}

test("GET /admin/email-logs: contains the reply of a relay that rejects EHLO", async () => {
  server.rules.ehlo = () => GOOGLE;
  const { id } = await mailOf("queued");
  const admin = await app.signInAdmin();
  const { items } = (await admin.get("/admin/email-logs?status=queued")).body;
  const kept = "421 4.7.0 Try again later, closing connection. (EHLO) ….4 - gsmtp";
  expect(items.find((email: { id: string }) => email.id === id)).toMatchObject({ lastError: kept });
});

test("POST /auth/register: a relay that rejects EHLO without a host name accepts the e-mail", async () => {
  server.rules.ehlo = (name) => (/^[\w-]+(\.[\w-]+)+$/.test(name) ? "250 slow.example" : GOOGLE);
  expect(await mailOf("sent")).toMatchObject({ attempts: 1 });
  expect(server.names).toContain("auth.example.com");
});

test.each([
  { publicUrl: "https://auth.example.com", query: "", name: "auth.example.com" },
  { publicUrl: "https://auth.example.com:8443/path", query: "", name: "auth.example.com" },
  { publicUrl: "https://müller.example", query: "", name: "xn--mller-kva.example" },
  { publicUrl: "http://203.0.113.7", query: "", name: "mail.example" },
  { publicUrl: "http://[2001:db8::1]:8080", query: "", name: "mail.example" },
  { publicUrl: "http://localhost:8080", query: "", name: "mail.example" },
  { publicUrl: "http://app.localhost", query: "", name: "mail.example" },
  { publicUrl: "http://gatehouse", query: "", name: "mail.example" },
  { publicUrl: "", query: "", name: "mail.example" },
  { publicUrl: "https://auth.example.com", query: "?name=mx.example.net", name: "mx.example.net" },
  { publicUrl: "https://auth.example.com", query: "?name=", name: "auth.example.com" },
  { publicUrl: "https://a.example", query: "?tls.rejectUnauthorized=false", name: "a.example" },
])(
  "SMTP_URL with the query '$query' and PUBLIC_URL '$publicUrl': EHLO announces $name",
  async ({ publicUrl, query, name }) => {
    const relay = await forTest(startSlowSmtpServer());
    const config = requireConfig({
      MAIL_FROM: "Acme <no-reply@mail.example>",
      PUBLIC_URL: publicUrl,
      SMTP_URL: `${relay.url}${query}`,
    });
    const sender = await forTest(createMailTransport(config, silent));
    await sender.ping();
    const email = { subject: "Hello", text: "Hello.", html: "<p>Hello.</p>", messageId: "<1@x>" };
    const to = { name: "", address: "ann@example.com" };
    await sender.send({ ...email, to }, AbortSignal.timeout(60_000));
    expect(new Set(relay.names)).toEqual(new Set([name]));
  },
);

test("SMTP_URL: EHLO announces the host name of the machine if the installation has none", async () => {
  const relay = await forTest(startSlowSmtpServer());
  const config = requireConfig({ SMTP_URL: relay.url });
  const sender = await forTest(createMailTransport(config, silent));
  await sender.ping();
  expect(relay.names).toEqual([hostname().includes(".") ? hostname() : "[127.0.0.1]"]);
});

// 21 s are longer than a client waited that closed silent connections after 20 s
test.runIf(process.env.TEST_FULL)(
  "POST /auth/register: a relay that needs 21 s after the final dot receives one copy",
  async () => {
    server.rules.delayMs = (step) => (step === "dot" ? 21_000 : 0);
    const { email, attempts } = await mailOf("sent", 60_000);
    expect(attempts).toBe(1);
    expect(server.received.filter(({ to }) => to === email)).toHaveLength(1);
  },
);
