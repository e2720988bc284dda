import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { Config } from "../config.ts";
import type { Cipher } from "../crypto/cipher.ts";
import { encodeOneTimeToken } from "../crypto/one-time-tokens.ts";
import type { Clock } from "../platform/clock.ts";
import type { Store } from "../store/store.ts";
import { describeSmtpError, smtpReplyCode } from "./smtp-errors.ts";
import { renderEmail, type TemplateName } from "./templates.ts";
import type { MailTransport } from "./transport.ts";

/** Letters claimed at once, and letters being sent at once: a full batch may be slow before others have to wait. */
const BATCH = 20;
const MAX_ON_THEIR_WAY = 2 * BATCH;
/** A claimed letter belongs to its worker for this time in ms, and so long again with each renewal while it is on its way. */
const LEASE_MS = 10_000;
const RENEW_MS = 3_000;
/** How often an idle worker looks for letters that other processes have queued or left behind, in ms. */
const LOOK_MS = 1_000;
/** Longest pause between two tries, in ms. */
const MAX_RETRY_MS = 3_600_000;
/** When a letter is given up: one that the mail server keeps deferring, and one to which none answers, in ms. */
const GIVE_UP_MS = 24 * 3_600_000;
const GIVE_UP_UNANSWERED_MS = 7 * GIVE_UP_MS;
/** How long closing waits for letters being sent, in ms; another worker takes over a slower one when its lease ends. */
const CLOSE_MS = 10_000;
/** Why a letter is not sent any more. */
const LINK_ENDED = "not sent: its link has expired, or was used or replaced meanwhile";

/** The sending side of the queue. */
export type MailWorker = {
  /** Says that a letter has just been queued. */
  wake(): void;
  /** Lets the letters in hand be finished, then stops. */
  close(): Promise<void>;
};

type Needs = { store: Store; sender: MailTransport; cipher: Cipher; clock: Clock; config: Config; log: Logger };

/**
 * Sends what is queued, at least once each and under one Message-ID. Any number of workers share the queue: each
 * claims rows by a lease, and no transaction is open while a letter is on its way.
 */
export function startMailWorker(needs: Needs): MailWorker {
  let closing = false;
  let nudged = false;
  let wake = () => {};
  const idle = () =>
    new Promise<void>((resolve) => {
      if (nudged || closing) return resolve();
      const timer = setTimeout(resolve, LOOK_MS);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  const onTheirWay = new Set<Promise<void>>();
  const run = async () => {
    while (!closing) {
      nudged = false;
      const claimed = await claim(needs).catch(() => []); // the database is away: look again later
      for (const letter of claimed) {
        const delivery = deliver(needs, letter).finally(() => onTheirWay.delete(delivery));
        onTheirWay.add(delivery);
      }
      if (claimed.length === 0) await idle();
      while (onTheirWay.size > MAX_ON_THEIR_WAY - BATCH) await Promise.race(onTheirWay);
    }
    await Promise.all(onTheirWay);
  };
  const running = run();
  return {
    wake() {
      nudged = true;
      wake();
    },
    async close() {
      closing = true;
      wake();
      const patience = new AbortController();
      await Promise.race([running, wait(CLOSE_MS, undefined, { signal: patience.signal }).catch(() => {})]);
      patience.abort();
    },
  };
}

type ClaimedEmail = {
  id: string;
  to: string;
  template: TemplateName;
  facts: Record<string, string> & { name: string };
  token_id: string | null;
  attempts: number;
  queued_at: string;
  link_ended: boolean;
};

async function claim({ store, clock }: Needs): Promise<ClaimedEmail[]> {
  const now = clock.now();
  return store.fork().execute<ClaimedEmail[]>(
    `with due as materialized ( -- else a plan may look for them again and again, and exceed the limit
       select id from emails where next_attempt_at <= ? order by next_attempt_at, id limit ? for update skip locked)
     update emails as e set status = 'sending', attempts = e.attempts + 1, next_attempt_at = ?
     from due where e.id = due.id
     returning e.id, e."to", e.template, e.facts, e.token_id, e.attempts, coalesce(e.retried_at, e.created_at) as queued_at,
       e.token_id is not null and not exists (
         select from one_time_tokens t where t.id = e.token_id and t.expires_at > ?) as link_ended`,
    [now, BATCH, new Date(now.getTime() + LEASE_MS), now],
  );
}

/**
 * Never throws: what fails is tried again when its time or its lease has come. A letter that has waited for longer than
 * its link works is of no use to anybody.
 */
async function deliver(needs: Needs, letter: ClaimedEmail): Promise<void> {
  const { sender, cipher, config, log } = needs;
  if (letter.link_ended) return settle(needs, letter, "failed", { error: LINK_ENDED }).catch(() => {});
  const renewal = setInterval(() => void renew(needs, letter).catch(() => {}), RENEW_MS);
  try {
    const token = letter.token_id ? encodeOneTimeToken(cipher, letter.token_id) : undefined;
    const rendered = renderEmail(letter.template, letter.facts, config.appUrl, token);
    const [, domain] = config.mail.from.address.split("@");
    await sender.send({ ...rendered, to: { name: "", address: letter.to }, messageId: `<${letter.id}@${domain}>` });
  } catch (error) {
    const reason = describeSmtpError(error);
    log.warn({ email: letter.id, template: letter.template, attempt: letter.attempts, reason }, "mail not sent");
    await retryLater(needs, letter, smtpReplyCode(error), reason).catch(() => {});
    return;
  } finally {
    clearInterval(renewal);
  }
  await settle(needs, letter, "sent", { sentAt: needs.clock.now() }).catch(() => {});
}

async function renew({ store, clock }: Needs, { id, attempts }: ClaimedEmail): Promise<void> {
  await store
    .fork()
    .execute("update emails set next_attempt_at = ? where id = ? and attempts = ? and status = 'sending'", [
      new Date(clock.now().getTime() + LEASE_MS),
      id,
      attempts,
    ]);
}

/** What was refused for good (RFC 5321 section 4.2.1: 5yz) has failed; everything else is tried again, ever more seldom. */
async function retryLater(needs: Needs, letter: ClaimedEmail, code: number | undefined, error: string): Promise<void> {
  const now = needs.clock.now().getTime();
  const age = now - new Date(letter.queued_at).getTime();
  const failed = code === undefined ? age > GIVE_UP_UNANSWERED_MS : code >= 500 || age > GIVE_UP_MS;
  const pause = Math.min(needs.config.mail.retryBaseMs * 2 ** (letter.attempts - 1), MAX_RETRY_MS);
  const due = new Date(now + pause * (0.75 + Math.random() / 2));
  await settle(needs, letter, failed ? "failed" : "queued", { error, ...(!failed && { nextAttemptAt: due }) });
}

/** Only the attempt that was made is settled: a worker whose lease ran out cannot overwrite a later one. */
async function settle(
  { store }: Needs,
  { id, attempts }: ClaimedEmail,
  status: "sent" | "failed" | "queued",
  facts: { sentAt?: Date; nextAttemptAt?: Date; error?: string },
): Promise<void> {
  await store.fork().execute(
    `update emails set status = ?, sent_at = ?, next_attempt_at = ?, last_error = coalesce(?, last_error)
     where id = ? and attempts = ?`,
    [status, facts.sentAt ?? null, facts.nextAttemptAt ?? null, facts.error ?? null, id, attempts],
  );
}
