import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { Cipher } from "../crypto/cipher.ts";
import type { Config } from "../platform/config/config.ts";
import type { AgreedTime } from "../platform/process/agreed-time.ts";
import { every } from "../platform/process/background.ts";
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
 * Number of e-mails claimed at once, and of concurrent deliveries. Slow deliveries give up their places
 * while there are connections left, so that a mail server that delays some e-mails does not delay the
 * rest.
 */
const BATCH = 5;
const PLACES = 10;

/** Times of a worker, in ms. */
export type WorkerTimes = {
  /** Time after which a delivery counts as slow. */
  slowMs: number;
  /**
   * How long a claimed e-mail belongs to its worker; extended while it is being sent. After a crash, or
   * a database outage longer than this, other workers send it.
   */
  leaseMs: number;
  extendMs: number;
  /** For a whole e-mail: longer than the 65 minutes that all steps with STARTTLS and AUTH LOGIN may take. */
  emailMs: number;
  /**
   * How long closing waits for deliveries; shorter than the whole shutdown, see `shutdownOnSignal`.
   * Deliveries that take longer are cancelled, and sent again by the next worker.
   */
  closeMs: number;
};

const TIMES: WorkerTimes = {
  slowMs: 5_000,
  leaseMs: 30_000,
  extendMs: 5_000,
  emailMs: 75 * 60_000,
  closeMs: 15_000,
};

/** How often, and for how long, recording a result is retried while the database fails, in ms. */
const RECORD_RETRY_MS = 1_000;
const RECORD_TIMEOUT_MS = 10 * 60_000;
/** How long closing waits for cancelled deliveries to be recorded, in ms. */
const END_TIMEOUT_MS = 2_000;
/**
 * How often an idle worker polls for e-mails that other processes have queued or left behind, in
 * ms.
 */
const POLL_INTERVAL_MS = 1_000;
/**
 * Maximum delay between two attempts, in ms. The delay starts at `MAIL_RETRY_BASE` and doubles, with
 * jitter.
 */
const MAX_BACKOFF_MS = 3_600_000;
/**
 * Age at which an e-mail is given up: if the mail server defers it, and if no mail server replies. In
 * ms.
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
 * Starts a worker. It sends each e-mail at least once, always with the same Message-ID. Any number of
 * workers share the queue: each claims rows for the duration of a lease, so that no transaction is open
 * while an e-mail is being sent.
 */
export function startMailWorker(deps: Deps, times: WorkerTimes = TIMES) {
  const { store, clock, log } = deps;
  /** `inHand`: all deliveries and how to cancel them; `recent`: those that are not slow yet. */
  const inHand = new Map<ClaimedEmail, AbortController>();
  const recent = new Set<ClaimedEmail>();
  const closed = new AbortController();
  let change = Promise.withResolvers<void>();
  const changed = () => {
    change.resolve();
    change = Promise.withResolvers();
  };

  const isBusy = () => recent.size > PLACES - BATCH || inHand.size > MAX_CONNECTIONS - BATCH;

  async function sendDue(closing: AbortSignal): Promise<void> {
    for (let claimed = BATCH; claimed === BATCH; ) {
      while (isBusy() && !closing.aborted) await change.promise;
      if (closing.aborted) return;
      const mayGiveUp = (await deps.agreedTime.read()) !== undefined;
      const emails = await claimEmails(store, {
        now: clock.now(),
        leaseMs: times.leaseMs,
        limit: BATCH,
        inHand: [...inHand.keys()].map(({ id }) => id),
      });
      claimed = emails.length;
      for (const email of emails) void deliver(email, mayGiveUp);
    }
  }

  /** Sends an e-mail and records the result. Never throws. */
  async function deliver(email: ClaimedEmail, mayGiveUp: boolean): Promise<void> {
    const ending = new AbortController();
    inHand.set(email, ending);
    recent.add(email);
    const leavePlace = () => {
      recent.delete(email);
      changed();
    };
    const timers = [
      setTimeout(leavePlace, times.slowMs),
      setTimeout(() => ending.abort(), times.emailMs),
    ];
    const result = await attempt(deps, email, mayGiveUp, ending.signal);
    for (const timer of timers) clearTimeout(timer);
    if (result.status) deps.countEmail(OUTCOMES[result.status]);
    await record(email, closed.signal.aborted ? dueAgain(result) : result);
    inHand.delete(email);
    leavePlace();
  }

  /**
   * Records a result. Keeps retrying while the database fails, since an e-mail that was already accepted
   * would otherwise be sent again after its lease.
   */
  async function record(email: ClaimedEmail, result: Partial<Email>): Promise<void> {
    const deadline = performance.now() + RECORD_TIMEOUT_MS;
    while (!(await isRecorded(email, result)) && performance.now() < deadline) {
      if (closed.signal.aborted) return;
      await wait(RECORD_RETRY_MS, undefined, { signal: closed.signal }).catch(() => {});
    }
  }

  const isRecorded = (email: ClaimedEmail, result: Partial<Email>) =>
    recordAttempt({ em: store.fork() }, email, result).then(
      () => true,
      () => false,
    );

  /** An attempt that was cancelled by closing is immediately due again, for the next worker. */
  const dueAgain = (result: Partial<Email>): Partial<Email> =>
    result.status === "queued" ? { ...result, nextAttemptAt: clock.now() } : result;

  async function extend(): Promise<void> {
    const claims = [...inHand.keys()];
    if (claims.length === 0) return;
    const ids = claims.map(({ id }) => id);
    const attempts = claims.map(({ attempts }) => attempts);
    await extendLeases(store, { ids, attempts, leaseMs: times.leaseMs });
  }

  const sending = every({ name: "send mail", intervalMs: POLL_INTERVAL_MS, run: sendDue }, deps);
  const extending = every(
    { name: "extend mail leases", intervalMs: times.extendMs, run: extend },
    deps,
  );

  async function finishDeliveries(): Promise<void> {
    const stopped = sending.close();
    changed(); // it may be waiting for a place
    await stopped;
    while (inHand.size > 0) await change.promise;
    await extending.close();
  }

  function endDeliveries(): void {
    log.warn({ emails: inHand.size }, "mail deliveries cancelled by shutdown, will be sent again");
    closed.abort();
    for (const ending of inHand.values()) ending.abort();
  }

  return {
    /** Checks for queued e-mails now. */
    wake: sending.wake,
    /** Stops once all deliveries have finished or have been cancelled. */
    async close() {
      const finished = finishDeliveries();
      const within = (ms: number) => Promise.race([finished, wait(ms, undefined, { ref: false })]);
      await within(times.closeMs);
      if (inHand.size === 0) return;
      endDeliveries();
      await within(END_TIMEOUT_MS);
    },
  };
}

/** How an attempt to deliver an e-mail ended. A deferred one is tried again. */
type EmailOutcome = "sent" | "deferred" | "failed";
const OUTCOMES: Record<Email["status"], EmailOutcome> = {
  sent: "sent",
  failed: "failed",
  queued: "deferred",
  sending: "deferred",
};

/**
 * Sends an e-mail, unless its link is no longer valid.
 * @param mayGiveUp whether the time is reliable enough to give up the e-mail because of its age or that of its link
 */
async function attempt(
  deps: Deps,
  email: ClaimedEmail,
  mayGiveUp: boolean,
  signal: AbortSignal,
): Promise<Partial<Email>> {
  const { sender, cipher, clock, config, renderEmail, log } = deps;
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
 * The values that an e-mail shows. An unverified address may not belong to the user: an e-mail to it does
 * without their name and device. The old address of a user is never verified any more, but was theirs.
 * Whose address somebody has registered is told from where, to see that it was somebody else.
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

/** The e-mails that name a device to whoever has the address: an account's old one, and that of a new account. */
const NAMES_DEVICE: ReadonlySet<TemplateName> = new Set(["email-changed", "verify-email"]);

/**
 * Whether a failed attempt was the last one. A 5yz reply is permanent (RFC 5321 section 4.2.1), a 6yz
 * reply is not. A rejected connection or sender is not specific to this e-mail.
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
