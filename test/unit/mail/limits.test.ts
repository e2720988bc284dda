import { describe, expect, test } from "vitest";
import { createMailTransport, MAIL_LIMITS } from "../../../services/mail/transport.ts";
import { silent } from "../../support/log.ts";
import { type SmtpStep, startSlowSmtpServer } from "../../support/mail/slow-smtp-server.ts";

const MINUTE_MS = 60_000;
/** RFC 5321 section 4.5.3.2, in ms; EHLO as the greeting. */
const LEAST: Record<SmtpStep, number> = {
  greeting: 5 * MINUTE_MS,
  ehlo: 5 * MINUTE_MS,
  mail: 5 * MINUTE_MS,
  rcpt: 5 * MINUTE_MS,
  data: 2 * MINUTE_MS,
  dot: 10 * MINUTE_MS,
};
const STEPS = Object.keys(LEAST) as SmtpStep[];
/** Of a block of data, which gets no reply. */
const BLOCK_MS = 3 * MINUTE_MS;

/** Sends an e-mail to a server that is slow at one step. */
async function send(step: SmtpStep, delayMs: number, limits = MAIL_LIMITS) {
  const server = await startSlowSmtpServer({ delayMs: (each) => (each === step ? delayMs : 0) });
  const config = {
    smtpUrl: server.url,
    mailFrom: { name: "", address: "us@example.com" },
    publicUrl: "https://auth.example.com",
    dataDir: "",
  };
  const sender = createMailTransport(config, silent, limits);
  const to = { name: "", address: "ann@example.com" };
  const email = { to, subject: "Hello", text: "Hello.", html: "<p>Hello.</p>", messageId: "<1@x>" };
  const failure = await sender.send(email, AbortSignal.timeout(75 * MINUTE_MS)).then(
    () => undefined,
    (error: { code: string }) => error.code,
  );
  sender.close();
  await server.close();
  return { failure, copies: server.received.length };
}

describe.concurrent("SMTP: time limits", () => {
  test.each(STEPS)("the limit of %s is at least the minimum of RFC 5321", (step) => {
    expect(MAIL_LIMITS.stepMs).toBeGreaterThanOrEqual(LEAST[step]);
    expect(MAIL_LIMITS.stepMs).toBeGreaterThanOrEqual(BLOCK_MS);
  });

  test("the limit of the set-up covers greeting, EHLO, STARTTLS and a handshake", () => {
    expect(MAIL_LIMITS.setupMs).toBeGreaterThanOrEqual(4 * LEAST.ehlo);
  });

  test.each(STEPS)(
    "a server that is slow at %s, but within the limit, gets one copy",
    async (step) => {
      const limits = { stepMs: 4_000, setupMs: 10_000 };
      expect(await send(step, 2_000, limits)).toEqual({ failure: undefined, copies: 1 });
    },
  );

  test.each(STEPS)("a server that is silent at %s is given up after the limit", async (step) => {
    const limits = { stepMs: 500, setupMs: 1_000 };
    expect(await send(step, 600_000, limits)).toMatchObject({ failure: "ETIMEDOUT" });
  });

  // `MAIL_REAL_TIME=yes` takes ten minutes
  test.runIf(process.env.MAIL_REAL_TIME).each(STEPS)(
    "a server that replies at %s one second before the minimum of RFC 5321 gets one copy",
    async (step) => {
      expect(await send(step, LEAST[step] - 1_000)).toEqual({ failure: undefined, copies: 1 });
    },
    15 * MINUTE_MS,
  );
});
