import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { Cipher } from "../crypto/cipher.ts";
import { encodeOneTimeToken } from "../crypto/one-time-token.ts";
import { every } from "../jobs/background.ts";
import type { Config } from "../platform/config.ts";
import type { Clock } from "../platform/process.ts";
import { type ClaimedEmail, claimEmails, Email } from "../store/emails.ts";
import type { Store } from "../store/store.ts";
import { renderEmail, type TemplateName } from "./templates.ts";
import { describeSmtpError, type MailTransport } from "./transport.ts";

/**
 * E-mails claimed at once, and e-mails being sent at once: a slow batch leaves capacity for the
 * next one.
 */
const BATCH = 20;
const MAX_IN_FLIGHT = 2 * BATCH;
/**
 * A claimed e-mail belongs to its worker for this time in ms, which is extended while it is being
 * sent.
 */
const LEASE_MS = 10_000;
const EXTEND_INTERVAL_MS = 3_000;
/**
 * How often an idle worker looks for e-mails that other processes have queued or left behind, in
 * ms.
 */
const POLL_INTERVAL_MS = 1_000;
/**
 * Mail retry: the longest pause between two attempts, in ms. The pauses double, from
 * `MAIL_RETRY_BASE`, with jitter.
 */
const MAX_BACKOFF_MS = 3_600_000;
/**
 * When an e-mail has failed that the mail server defers, and one that no mail server has replied
 * to, in ms.
 */
const GIVE_UP_MS = 24 * 3_600_000;
const GIVE_UP_WITHOUT_REPLY_MS = 7 * GIVE_UP_MS;
/**
 * How long closing waits for e-mails being sent, in ms. Another worker sends the rest when their
 * lease ends.
 */
const CLOSE_TIMEOUT_MS = 10_000;
const TOKEN_EXPIRED = "not sent: its link has expired, or was used or replaced meanwhile";

/** Sends the queued e-mails of all processes. */
export type MailWorker = ReturnType<typeof startMailWorker>;

type Deps = {
  store: Store;
  sender: MailTransport;
  cipher: Cipher;
  clock: Clock;
  config: Config;
  log: Logger;
};

/**
 * Starts a worker. It sends each e-mail at least once, with the same Message-ID each time. Any
 * number of workers share the queue: each claims rows for the time of a lease, so no transaction is
 * open while an e-mail is being sent.
 */
export function startMailWorker(deps: Deps) {
  const inFlight = new Set<Promise<void>>();
  const leaseEnd = () => new Date(deps.clock.now().getTime() + LEASE_MS);

  async function sendDue(closing: AbortSignal): Promise<void> {
    for (let claimed = BATCH; claimed === BATCH; ) {
      while (inFlight.size > MAX_IN_FLIGHT - BATCH) await Promise.race(inFlight);
      if (closing.aborted) return;
      const emails = await claimEmails(deps.store, {
        now: deps.clock.now(),
        leaseEnd: leaseEnd(),
        limit: BATCH,
      });
      claimed = emails.length;
      for (const email of emails) {
        const sending = send(email).finally(() => inFlight.delete(sending));
        inFlight.add(sending);
      }
    }
  }

  /**
   * Never throws: if the result can't be recorded, the e-mail is sent again when its lease ends.
   */
  async function send(email: ClaimedEmail): Promise<void> {
    const { id, attempts } = email;
    const update = (changes: Partial<Email>) =>
      deps.store
        .fork()
        .nativeUpdate(Email, { id, attempts, status: "sending" }, changes)
        .catch(() => 0);
    const extending = setInterval(() => update({ nextAttemptAt: leaseEnd() }), EXTEND_INTERVAL_MS);
    await update(await attempt(deps, email).finally(() => clearInterval(extending)));
  }

  const job = every({ name: "send mail", intervalMs: POLL_INTERVAL_MS, run: sendDue }, deps);
  return {
    /** Looks for queued e-mails now. */
    wake: job.wake,
    /** Stops when the e-mails being sent are finished. */
    async close() {
      const finished = job.close().then(() => Promise.all(inFlight));
      await Promise.race([finished, wait(CLOSE_TIMEOUT_MS, undefined, { ref: false })]);
    },
  };
}

/** Sends an e-mail, unless its link does not work any more. */
async function attempt(deps: Deps, email: ClaimedEmail): Promise<Partial<Email>> {
  const { sender, cipher, clock, config, log } = deps;
  if (email.tokenExpired)
    return { status: "failed", lastError: TOKEN_EXPIRED, nextAttemptAt: null };
  try {
    const token = email.tokenId ? encodeOneTimeToken(cipher, email.tokenId) : undefined;
    const { name, ...variables } = email.variables;
    const greeted = { ...variables, ...(email.isVerified && { name }) }; // an unverified address may not be the user's
    const rendered = renderEmail(email.template as TemplateName, greeted, config, token);
    const [, domain] = config.mailFrom.address.split("@");
    await sender.send({
      ...rendered,
      to: { name: "", address: email.to },
      messageId: `<${email.id}@${domain}>`,
    });
    return { status: "sent", sentAt: clock.now(), nextAttemptAt: null };
  } catch (error) {
    const reason = describeSmtpError(error);
    const { id, template, attempts } = email;
    log.warn({ email: id, template, attempt: attempts, reason }, "mail not sent");
    const now = clock.now().getTime();
    const isLast = isPermanent(error, now - email.queuedAt.getTime());
    if (isLast) return { status: "failed", lastError: reason, nextAttemptAt: null };
    const backoffMs = Math.min(config.mailRetryBaseMs * 2 ** (attempts - 1), MAX_BACKOFF_MS);
    const jitter = 0.75 + Math.random() / 2;
    return {
      status: "queued",
      lastError: reason,
      nextAttemptAt: new Date(now + backoffMs * jitter),
    };
  }
}

/**
 * Whether a failed attempt was the last one. A reply of 5yz is permanent (RFC 5321 section 4.2.1),
 * one of 6yz is none. A refusal of the connection or of the sender is not about this e-mail.
 */
function isPermanent(error: unknown, ageMs: number): boolean {
  const { code, command, responseCode } = error as {
    code?: string;
    command?: string;
    responseCode?: number;
  };
  const isAboutEmail = code === "EMESSAGE" || (code === "EENVELOPE" && command !== "MAIL FROM");
  if (!isAboutEmail || responseCode === undefined) return ageMs > GIVE_UP_WITHOUT_REPLY_MS;
  return /^5..$/.test(`${responseCode}`) || ageMs > GIVE_UP_MS;
}
