import type { Logger } from "pino";
import type { Cipher } from "../crypto/cipher.ts";
import { type QueueTimes, startQueue } from "../jobs/queue.ts";
import type { Config } from "../platform/config/config.ts";
import type { AgreedTime } from "../platform/process/agreed-time.ts";
import type { Clock } from "../platform/process/clock.ts";
import {
  type ClaimedEmail,
  claimEmails,
  type Email,
  extendLeases,
  recordAttempt,
} from "../store/emails.ts";
import type { Store } from "../store/store.ts";
import { emailCodeOf } from "./email-code.ts";
import { encodeOneTimeToken } from "./one-time-token.ts";
import type { RenderEmail, TemplateVariables } from "./templates.ts";
import type { TemplateName } from "./texts.ts";
import { describeSmtpError, MAX_CONNECTIONS, type MailTransport } from "./transport.ts";

/**
 * Number of e-mails claimed at once, and of concurrent deliveries. Slow deliveries give up their
 * places while there are connections left, so that a mail server that delays some e-mails does not
 * delay the rest.
 */
const BATCH = 5;
const PLACES = 10;

/**
 * An e-mail may take longer than the 65 minutes that all steps with STARTTLS and AUTH LOGIN may
 * take.
 */
const TIMES: QueueTimes = {
  slowMs: 5_000,
  leaseMs: 30_000,
  extendMs: 5_000,
  itemMs: 75 * 60_000,
  closeMs: 15_000,
};

/**
 * Maximum delay between two attempts, in ms. The delay starts at `MAIL_RETRY_BASE` and doubles,
 * with jitter.
 */
const MAX_BACKOFF_MS = 3_600_000;
/**
 * Age at which an e-mail is given up: if the mail server defers it, and if no mail server replies.
 * In ms.
 */
const GIVE_UP_MS = 24 * 3_600_000;
const GIVE_UP_WITHOUT_REPLY_MS = 7 * GIVE_UP_MS;
const TOKEN_EXPIRED = "not sent: its link has expired, or was used or replaced in the meantime";

/** Sends the queued e-mails of all processes. */
export type MailWorker = ReturnType<typeof startMailWorker>;

type Deps = {
  store: Store;
  sender: MailTransport;
  cipher: Cipher;
  clock: Clock;
  /** While the clocks do not agree, no e-mail is given up. */
  agreedTime: Pick<AgreedTime, "read">;
  config: Config;
  renderEmail: RenderEmail;
  log: Logger;
  /** Called after each attempt to deliver an e-mail. */
  countEmail: (outcome: EmailOutcome) => void;
};

/**
 * Starts a worker. It sends each e-mail at least once, always with the same Message-ID. Any number
 * of workers share the queue.
 */
export function startMailWorker(deps: Deps, times: QueueTimes = TIMES) {
  const { store, clock } = deps;
  return startQueue<DueEmail, Partial<Email>>(
    {
      name: "emails",
      isBusy: (inHand, recent) => recent > PLACES - BATCH || inHand > MAX_CONNECTIONS - BATCH,
      async claim(leaseMs, inHand) {
        const mayGiveUp = (await deps.agreedTime.read()) !== undefined;
        const claim = { now: clock.now(), leaseMs, limit: BATCH, inHand };
        const emails = await claimEmails(store, claim);
        const items = emails.map((email) => ({ ...email, mayGiveUp }));
        return { items, left: items.length === BATCH ? "due" : "nothing" };
      },
      extend: (leases) => extendLeases(store, leases),
      async attempt(email, signal) {
        const result = await attempt(deps, email, signal);
        if (result.status) deps.countEmail(OUTCOMES[result.status]);
        return result;
      },
      record: (email, result, isCancelled) =>
        recordAttempt(
          { em: store.fork() },
          email,
          isCancelled && result.status === "queued"
            ? { ...result, nextAttemptAt: clock.now() }
            : result,
        ),
    },
    times,
    deps,
  );
}

/**
 * A claimed e-mail. `mayGiveUp`: whether the time is reliable enough to give it up because of its
 * age or that of its link.
 */
type DueEmail = ClaimedEmail & { mayGiveUp: boolean };

/** How an attempt to deliver an e-mail ended. A deferred one is tried again. */
type EmailOutcome = "sent" | "deferred" | "failed";
const OUTCOMES: Record<Email["status"], EmailOutcome> = {
  sent: "sent",
  failed: "failed",
  queued: "deferred",
  sending: "deferred",
};

/** Sends an e-mail, unless its link is no longer valid. */
async function attempt(deps: Deps, email: DueEmail, signal: AbortSignal): Promise<Partial<Email>> {
  const { sender, cipher, clock, config, renderEmail, log } = deps;
  const { mayGiveUp } = email;
  if (email.tokenExpired && mayGiveUp)
    return { status: "failed", lastError: TOKEN_EXPIRED, nextAttemptAt: null };
  try {
    const token = email.tokenId ? encodeOneTimeToken(cipher, email.tokenId) : undefined;
    const template = email.template as TemplateName;
    const code = template === "email-code" && email.tokenId && emailCodeOf(cipher, email.tokenId);
    const shown = shownVariables(email);
    const variables = code ? { ...shown, code } : shown;
    const rendered = renderEmail({ template, variables, token, locale: email.locale });
    const [, domain] = config.mailFrom.address.split("@");
    const to = { name: "", address: email.to };
    await sender.send({ ...rendered, to, messageId: `<${email.id}@${domain}>` }, signal);
    return { status: "sent", sentAt: clock.now(), nextAttemptAt: null };
  } catch (error) {
    const reason = describeSmtpError(error);
    const { id, template, attempts } = email;
    log.warn({ email: id, template, attempt: attempts, reason }, "mail not sent");
    const now = clock.now().getTime();
    const isLast = isPermanent(error, mayGiveUp ? now - email.queuedAt.getTime() : 0);
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
 * The values that an e-mail shows. An unverified address may not belong to the user: an e-mail to
 * it does without their name and device. The old address of a user is never verified any more, but
 * was theirs. Whose address somebody has registered is told from where, to see that it was somebody
 * else.
 */
export function shownVariables({
  template,
  variables,
  isVerified,
}: Pick<ClaimedEmail, "template" | "variables" | "isVerified">): TemplateVariables {
  if (isVerified) return variables;
  const { name: _, place, client, ...others } = variables;
  return NAMES_DEVICE.has(template as TemplateName) ? { ...others, place, client } : others;
}

/**
 * The e-mails that name a device to whoever has the address: an account's old one, and that of a
 * new account.
 */
const NAMES_DEVICE: ReadonlySet<TemplateName> = new Set(["email-changed", "verify-email"]);

/**
 * Replies about the session, whichever command they reply to: unknown command, command out of order
 * (RFC 5321 section 4.2.2), a host that accepts no e-mails (RFC 7504), missing or rejected
 * authentication (RFC 4954), missing TLS (RFC 3207).
 */
const ABOUT_SESSION = /^(500|502|503|521|53\d)$/;

/**
 * Whether a failed attempt was the last one. A 5yz reply is permanent (RFC 5321 section 4.2.1), a
 * 6yz reply is not. A rejected connection, session or sender is not specific to this e-mail.
 */
function isPermanent(error: unknown, ageMs: number): boolean {
  const { code, command, responseCode } = error as {
    code?: string;
    command?: string;
    responseCode?: number;
  };
  const isAboutEmail =
    (code === "EMESSAGE" || (code === "EENVELOPE" && command !== "MAIL FROM")) &&
    !ABOUT_SESSION.test(`${responseCode}`);
  if (!isAboutEmail || responseCode === undefined) return ageMs > GIVE_UP_WITHOUT_REPLY_MS;
  return /^5..$/.test(`${responseCode}`) || ageMs > GIVE_UP_MS;
}
