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
import { encodeOneTimeToken } from "./one-time-token.ts";
import { renderEmail, type TemplateName } from "./templates.ts";
import { describeSmtpError, MAX_CONNECTIONS, type MailTransport } from "./transport.ts";

/**
 * E-mails claimed at once, and deliveries at once. Those that are slow give their place to others, as
 * long as there are connections: a mail server that makes some wait delays no other.
 */
const BATCH = 5;
const PLACES = 10;

/** Times of a worker, in ms. */
export type WorkerTimes = {
  /** After this time a delivery is slow. */
  slowMs: number;
  /**
   * A claimed e-mail belongs to its worker for this time, which is extended while it is being sent.
   * Others send it after a crash, and after a database outage of this length.
   */
  leaseMs: number;
  extendMs: number;
  /** For a whole e-mail, beyond 65 minutes of steps with STARTTLS and AUTH LOGIN. */
  emailMs: number;
  /**
   * How long closing waits for deliveries. It is shorter than the whole end of a process, see
   * `shutdownOnSignal`. The others are ended, and sent again by the next worker.
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

/** How often, and how long, the result of an attempt is recorded while the database fails, in ms. */
const RECORD_RETRY_MS = 1_000;
const RECORD_TIMEOUT_MS = 10 * 60_000;
/** How long closing waits until deliveries that it has ended are recorded, in ms. */
const END_TIMEOUT_MS = 2_000;
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
const TOKEN_EXPIRED = "not sent: its link has expired, or was used or replaced meanwhile";

/** Sends the queued e-mails of all processes. */
export type MailWorker = ReturnType<typeof startMailWorker>;

type Deps = {
  store: Store;
  sender: MailTransport;
  cipher: Cipher;
  clock: Clock;
  /** Without agreement on the time no e-mail is given up. */
  agreedTime: Pick<AgreedTime, "read">;
  config: Config;
  log: Logger;
};

/**
 * Starts a worker. It sends each e-mail at least once, with the same Message-ID each time. Any
 * number of workers share the queue: each claims rows for the time of a lease, so no transaction is
 * open while an e-mail is being sent.
 */
export function startMailWorker(deps: Deps, times: WorkerTimes = TIMES) {
  const { store, clock, log } = deps;
  /** The deliveries, and what ends them; and those that are not slow. */
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
    await record(email, closed.signal.aborted ? dueAgain(result) : result);
    inHand.delete(email);
    leavePlace();
  }

  /**
   * Records a result. An e-mail that was accepted would be sent again after its lease if the database
   * failed now, so this goes on until it works.
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

  /** An attempt that closing has ended is made again at once, by the next worker. */
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
    changed(); // it may wait for a place
    await stopped;
    while (inHand.size > 0) await change.promise;
    await extending.close();
  }

  function endDeliveries(): void {
    log.warn({ emails: inHand.size }, "mail deliveries ended by the shutdown, will be sent again");
    closed.abort();
    for (const ending of inHand.values()) ending.abort();
  }

  return {
    /** Looks for queued e-mails now. */
    wake: sending.wake,
    /** Stops when the deliveries have ended, or have been ended. */
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

/**
 * Sends an e-mail, unless its link does not work any more.
 * @param mayGiveUp whether the time is certain enough to give it up for its age, or that of its link
 */
async function attempt(
  deps: Deps,
  email: ClaimedEmail,
  mayGiveUp: boolean,
  signal: AbortSignal,
): Promise<Partial<Email>> {
  const { sender, cipher, clock, config, log } = deps;
  if (email.tokenExpired && mayGiveUp)
    return { status: "failed", lastError: TOKEN_EXPIRED, nextAttemptAt: null };
  try {
    const token = email.tokenId ? encodeOneTimeToken(cipher, email.tokenId) : undefined;
    const { name, ...variables } = email.variables;
    const greeted = { ...variables, ...(email.isVerified && { name }) }; // an unverified address may not be the user's
    const rendered = renderEmail(email.template as TemplateName, greeted, config, token);
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
