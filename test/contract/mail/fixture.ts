import { randomUUID } from "node:crypto";
import { afterAll, afterEach } from "vitest";
import { type Mode, startApp } from "../../support/app.ts";
import { type SmtpResponse, startSmtpServer } from "../../support/mail/smtp-server.ts";
import { until } from "../../support/until.ts";

/** The delay after the first failure, in ms. It doubles with each failure. */
export const BASE_MS = 600_000;
/** Deployments that differ in delivery. The suite of the mail worker tests leases on a server. */
const SINGLE: Mode[] =
  process.env.TEST_SERVERS && process.env.TEST_FULL ? ["embedded", "servers"] : ["embedded"];
export const modes: Mode[] = process.env.TEST_MODE === "replicas" ? ["replicas"] : SINGLE;

/** An e-mail in the queue. */
export type Row = {
  id: string;
  status: string;
  attempts: number;
  last_error: string | null;
  next_attempt_at: string | null;
};

/**
 * Starts the product for a suite, and its SMTP server. The server accepts every e-mail unless a
 * test changes its responses.
 */
export async function openMailFixture(mode: Mode) {
  const smtpServer = await startSmtpServer();
  const { port, url } = smtpServer;
  const usual = { ...smtpServer.responses };
  const lastingLinks = { VERIFY_TOKEN_TTL: "7d" }; // longer than any outage of a test
  const MAIL_FROM = "Acme: Größe <no-reply@bücher.example>";
  const env = {
    SMTP_URL: url,
    MAIL_FROM,
    MAIL_RETRY_BASE: `${BASE_MS / 60_000}m`,
    ...lastingLinks,
  };
  const app = await startApp({ mode, env });
  afterEach(() => void Object.assign(smtpServer.responses, usual));
  afterAll(async () => {
    await app.close();
    await smtpServer.close();
  });
  return {
    app,
    smtpServer,
    /** Opens the server again after a test has closed it. */
    reopen: async () => void Object.assign(smtpServer, await startSmtpServer(port)),
    /**
     * Lets the server refuse recipients whose address begins with a text, and accept all others.
     */
    refuse(prefix: string, reply: SmtpResponse) {
      smtpServer.responses.rcpt = (to) => (to.startsWith(prefix) ? reply : "accept");
    },
    /** Lets the server accept every recipient. */
    accept() {
      smtpServer.responses.rcpt = usual.rcpt;
    },
    /**
     * Registers an account, which queues an e-mail.
     * @returns its address
     */
    register: async (kind: string) =>
      (await app.addUser({ email: `${kind}.${randomUUID()}@example.com` })).email,
    /** Waits until the e-mail to an address meets a condition. */
    rowOf: (email: string, is: (row: Row) => boolean) =>
      until(`the e-mail to ${email}`, async () => {
        const [row] = await app.sql<Row>(
          `select id, status, attempts, last_error, next_attempt_at from emails where "to" = ?`,
          [email],
        );
        return row && is(row) ? row : undefined;
      }),
    receivedFor: (email: string) => smtpServer.received.filter(({ to }) => to === email),
  };
}
