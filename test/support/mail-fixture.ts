import { randomUUID } from "node:crypto";
import { afterAll, afterEach } from "vitest";
import { startApp } from "./app.ts";
import { startSmtpServer } from "./smtp-server.ts";
import { until } from "./until.ts";

/** The pause after a first failure, in ms; it doubles with each. */
export const BASE_MS = 600_000;
/** Deployments that deliver mail in ways of their own. */
export const modes = process.env.TEST_SERVERS ? (["embedded", "servers"] as const) : (["embedded"] as const);

/** A letter as the queue has it. */
export type Row = {
  id: string;
  status: string;
  attempts: number;
  last_error: string | null;
  next_attempt_at: string | null;
};

/** For a suite: the product, whose mail goes to an SMTP server that accepts everything unless a test tells it otherwise. */
export async function openMailFixture(mode: (typeof modes)[number]) {
  let smtpServer = await startSmtpServer();
  const { port, url } = smtpServer;
  const usual = { ...smtpServer.responses };
  const lastingLinks = { VERIFY_TOKEN_TTL: "7d" }; // for longer than any outage here
  const MAIL_FROM = "Acme: Größe <no-reply@bücher.example>";
  const env = { SMTP_URL: url, MAIL_FROM, MAIL_RETRY_BASE: `${BASE_MS / 60_000}m`, ...lastingLinks };
  const app = await startApp({ mode, env });
  afterEach(() => void Object.assign(smtpServer.responses, usual));
  afterAll(async () => {
    await app.close();
    await smtpServer.close();
  });
  return {
    app,
    get smtpServer() {
      return smtpServer;
    },
    /** Opens the smtpServer anew, which a test has closed. */
    async reopen() {
      smtpServer = await startSmtpServer(port);
    },
    /** Registers somebody, whose letter of welcome is the one to look at. @returns the address */
    register: async (kind: string) => (await app.addUser({ email: `${kind}.${randomUUID()}@example.com` })).email,
    /** Waits until the letter to somebody is as it should be. */
    rowOf: (email: string, is: (row: Row) => boolean) =>
      until(`the letter to ${email}`, async () => {
        const [row] = await app.sql<Row>(
          `select id, status, attempts, last_error, next_attempt_at from emails where "to" = ?`,
          [email],
        );
        return row && is(row) ? row : undefined;
      }),
    receivedFor: (email: string) => smtpServer.received.filter(({ to }) => to === email),
  };
}
