import { defineEntity, type InferEntity, p } from "@mikro-orm/core";
import type { ListEmailLogsRequest } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { domainSpellings } from "../platform/rpc/typed-text.ts";
import { lowestId, newId } from "./ids.ts";
import { type Page, type PageRequest, readPage, rowsWhere } from "./page.ts";
import { type Person, personColumn } from "./person.ts";
import { searchable } from "./search-indexes.ts";
import { type ClockedDb, type Db, firstRow, oneRow, prepared } from "./statement.ts";
import { LOCKS } from "./store.ts";
import type { User } from "./users.ts";

/** An e-mail in the queue and the log. */
export const Email = defineEntity({
  name: "Email",
  tableName: "emails",
  properties: {
    id: p.uuid().primary(),
    userId: p.uuid().nullable(), // null once the account has been erased
    to: p.string(),
    template: p.string(),
    variables: p.json().$type<Record<string, string>>().name("facts"),
    tokenId: p.uuid().nullable(), // the one-time token of its link; the token's text is derived when the e-mail is sent
    status: p.string().$type<"queued" | "sending" | "sent" | "failed">(),
    attempts: p.integer(),
    lastError: p.text().nullable(),
    createdAt: p.datetime(),
    sentAt: p.datetime().nullable(),
    nextAttemptAt: p.datetime().nullable(), // when it is due; while it is being sent, when its lease ends
    retriedAt: p.datetime().nullable(), // when an administrator queued it again
  },
});
export interface Email extends InferEntity<typeof Email> {}

/** The recipient of an e-mail: a user and the address it is sent to. */
export type Recipient = Pick<User, "id" | "email" | "name">;

/** A recipient, with the values for the template of their e-mail. */
type Addressed = Recipient & Pick<Email, "variables">;

/**
 * Queues an e-mail to each recipient, due immediately. Skips users who are being erased, and
 * service accounts, which have no mailbox.
 */
export async function insertEmails(
  { em }: Db,
  recipients: readonly Addressed[],
  { template, tokenId }: Pick<Email, "template" | "tokenId">,
  now: Date,
): Promise<void> {
  const emails = recipients.map(({ id: userId, email: to, name, variables }) => {
    return { id: newId(now), user_id: userId, to, facts: { name, ...variables } };
  });
  await em.execute(
    `insert into emails (id, user_id, "to", template, facts, token_id, status, created_at, next_attempt_at)
     select v.id, u.id, v."to", :template, v.facts, :tokenId, 'queued', :now, :now
     from jsonb_to_recordset(:emails::jsonb) as v (id uuid, user_id uuid, "to" text, facts jsonb)
     join users u on u.id = v.user_id and not u.is_service for key share of u`,
    { emails: JSON.stringify(emails), template, tokenId, now },
  );
}

/**
 * E-mails of a template queued for a user within the last `windowMs`, oldest first. Lock the user
 * first.
 */
export function recentEmails(
  { em, clock }: ClockedDb,
  userId: string,
  template: string,
  windowMs: number,
) {
  const createdAt = { $gt: new Date(clock.now().getTime() - windowMs) };
  return em.find(
    Email,
    { userId, template, createdAt },
    { fields: ["createdAt"], orderBy: { id: "asc" } },
  );
}

/**
 * Variables of an account's first verification e-mail to an address; undefined if it is not kept
 * any more.
 */
export const findFirstVerification = (
  db: Db,
  { id, email }: Pick<User, "id" | "email">,
): Promise<Pick<Email, "variables"> | undefined> =>
  firstRow(
    db,
    `select facts as variables from emails
     where user_id = :id and "to" = :email and template = 'verify-email' order by id limit 1`,
    { id, email },
  );

/** E-mails that anyone can request, to any address. */
export const REQUESTED_EMAILS = ["verify-email", "change-email", "reset-password", "email-code"];

/** Numbers of e-mails within the last hour and the last day. */
export type EmailCounts = { inHour: number; inDay: number };
const COUNTS = `count(*) filter (where e.created_at > :now::timestamptz - interval '1 hour')::int as "inHour",
  count(*) filter (where e.created_at > :now::timestamptz - interval '1 day')::int as "inDay"`;
const REQUESTED = REQUESTED_EMAILS.map((template) => `'${template}'`).join();
const DAY_MS = 86_400_000;

/**
 * Counts the requested e-mails to an address, in all spellings and across accounts. Locks the
 * address until the transaction ends, so that each of several concurrent callers counts the e-mails
 * of those before it.
 */
export async function countRequestedEmails(
  { em, clock }: ClockedDb,
  address: string,
): Promise<EmailCounts> {
  const lock = "select pg_advisory_xact_lock(:emailsTo, hashtext(searchable(:address)))";
  await em.execute(lock, { ...LOCKS, address });
  const now = clock.now();
  const { values, list } = spellingsOf(address);
  return oneRow(
    { em },
    `select ${COUNTS} from emails e
     where ${searchable('e."to"')} in (${list}) and e.id >= :first and e.template in (${REQUESTED})`,
    { ...values, now, first: lowestId(new Date(now.getTime() - DAY_MS)) },
  );
}

/** Counts all other e-mails to a user: notices about the account. Lock the user first. */
export const countNotices = ({ em, clock }: ClockedDb, userId: string): Promise<EmailCounts> =>
  oneRow(
    { em },
    `select ${COUNTS} from emails e
     where e.user_id = :userId and e.id >= :first and e.template not in (${REQUESTED})`,
    { userId, now: clock.now(), first: lowestId(new Date(clock.now().getTime() - DAY_MS)) },
  );

/** Maximum numbers of notices to an unverified address. */
export const MAX_UNVERIFIED_NOTICES: EmailCounts = { inHour: 5, inDay: 20 };

/**
 * SQL condition: whether another notice may be sent to the unverified address of a user.
 * @param userId SQL expression for the id
 */
export const mayGetNotice = (userId: string): string => `(
  select counts."inHour" < ${MAX_UNVERIFIED_NOTICES.inHour} and counts."inDay" < ${MAX_UNVERIFIED_NOTICES.inDay}
  from (select ${COUNTS} from emails e where e.user_id = ${userId}
    and e.created_at > :now::timestamptz - interval '1 day' and e.template not in (${REQUESTED})) counts)`;

/** Values for all spellings of an address, and the SQL list of their names. */
function spellingsOf(address: string) {
  const spellings = [address, ...domainSpellings(address)];
  const values = Object.fromEntries(spellings.map((to, i) => [`to${i}`, to]));
  const list = Object.keys(values).map((name) => searchable(`:${name}`));
  return { values, list: list.join() };
}

/**
 * An e-mail claimed by a worker. `attempts` includes the current attempt and identifies the
 * claim.
 */
export type ClaimedEmail = Pick<
  Email,
  "id" | "to" | "template" | "variables" | "tokenId" | "attempts"
> & {
  /** When it was queued, or queued again by an administrator. */
  queuedAt: Date;
  /** Whether its one-time token has expired or been used. */
  tokenExpired: boolean;
  /** Whether the user has verified this address. */
  isVerified: boolean;
  /** The language that the user has chosen, a BCP 47 tag; null for none. */
  locale: string | null;
};

/**
 * Claims due e-mails, oldest first, for the duration of a lease. Leases begin and end by the
 * database's clock, so that a process with a wrong clock never takes an e-mail from the worker that
 * is sending it.
 */
export const claimEmails = prepared<
  {
    now: Date;
    leaseMs: number;
    limit: number;
    /** Ids of the e-mails that this worker is already sending. */
    inHand: readonly string[];
  },
  ClaimedEmail
>(
  "claim_emails",
  `with due as materialized (
     select id from emails
     where next_attempt_at <= greatest(:now::timestamptz, now())
       and next_attempt_at <= case when status = 'sending' then now() else :now::timestamptz end
       and id <> all (:inHand::uuid[])
     order by next_attempt_at, id limit :limit for update skip locked)
   update emails as e set status = 'sending', attempts = e.attempts + 1,
     next_attempt_at = now() + :leaseMs * interval '1 ms'
   from due where e.id = due.id
   returning e.id, e."to", e.template, e.facts as variables, e.token_id as "tokenId", e.attempts,
     coalesce(e.retried_at, e.created_at) as "queuedAt",
     e.token_id is not null and not exists (
       select from one_time_tokens t where t.id = e.token_id and t.expires_at > :now) as "tokenExpired",
     exists (select from users u where u.id = e.user_id and u.email = e."to" and u.email_verified_at is not null)
       as "isVerified",
     (select u.locale from users u where u.id = e.user_id) as locale`, // materialized: otherwise a plan may evaluate "due" repeatedly and claim more than the limit
);

/** Identifies a claim: if another worker claims the e-mail later, `attempts` is higher. */
type Claim = Pick<ClaimedEmail, "id" | "attempts">;

/** Extends the leases of e-mails that are being sent, unless another worker has claimed them. */
export const extendLeases = prepared<{ ids: string[]; attempts: number[]; leaseMs: number }>(
  "extend_leases",
  `update emails as e set next_attempt_at = now() + :leaseMs * interval '1 ms'
   from unnest(:ids::uuid[], :attempts::int[]) as claim (id, attempts)
   where e.id = claim.id and e.attempts = claim.attempts and e.status = 'sending'`,
);

/**
 * Records the result of an attempt, unless another worker has claimed the e-mail in the meantime.
 */
export const recordAttempt = ({ em }: Db, { id, attempts }: Claim, result: Partial<Email>) =>
  em.nativeUpdate(Email, { id, attempts, status: "sending" }, result);

/** Reads what an e-mail is rendered from. */
export const findEmailContent = (
  db: Db,
  id: string,
): Promise<Pick<ClaimedEmail, "template" | "variables" | "isVerified" | "locale"> | undefined> =>
  firstRow(
    db,
    `select e.template, e.facts as variables, u.locale,
       coalesce(u.email = e."to" and u.email_verified_at is not null, false) as "isVerified"
     from emails e left join users u on u.id = e.user_id where e.id = :id`,
    { id },
  );

/** The error of the latest undeliverable e-mail that was queued since the given time. */
export async function findLatestFailure(db: Db, since: Date): Promise<string | null> {
  const row = await firstRow<{ failure: string | null }>(
    db,
    `select last_error as failure from emails where status = 'failed' and id >= :lowest order by id desc limit 1`,
    { lowest: lowestId(since) },
  );
  return row?.failure ?? null;
}

/** Queues a failed e-mail again, provided that its link, if any, is still valid. */
export const requeueEmail = (
  db: Db,
  id: string,
  now: Date,
): Promise<Pick<Email, "userId"> | undefined> =>
  firstRow(
    db,
    `update emails set status = 'queued', next_attempt_at = :now, retried_at = :now
     where id = :id and status = 'failed' and (token_id is null or exists (
       select from one_time_tokens t where t.id = token_id and t.expires_at > :now))
     returning user_id as "userId"`,
    { id, now },
  );

/**
 * Number of undelivered e-mails, and how long the oldest has been due, in seconds.
 */
export const mailQueue = (db: Db, now: Date) =>
  oneRow<{ depth: number; lagSeconds: number }>(
    db,
    `select count(*)::int as depth,
       greatest(0, extract(epoch from :now::timestamptz - min(next_attempt_at)))::float8 as "lagSeconds"
     from emails where next_attempt_at is not null`,
    { now },
  );

/** Filter for e-mails. `to` is case-insensitive and matches both Unicode and Punycode. */
export type EmailFilter = Pick<ListEmailLogsRequest, "userId" | "to" | "template" | "status">;

const COLUMNS = `t.id, t.user_id as "userId", t."to", t.template, t.status, t.attempts, t.last_error as "lastError",
  t.created_at as "createdAt", t.sent_at as "sentAt", t.next_attempt_at as "nextAttemptAt",
  ${personColumn("u", "user")}`;
const JOIN_USER = "left join users u on u.id = t.user_id";

/** An e-mail as administrators see it, without its text and token. */
type ListedEmail = Omit<Email, "variables" | "tokenId" | "retriedAt"> & { user: Person | null };

/** Lists e-mails, newest first, without their texts and tokens. */
export function listEmails(
  db: Db,
  filter: EmailFilter,
  request: PageRequest,
): Promise<Page<ListedEmail>> {
  const { values, list } = spellingsOf(filter.to ?? "");
  const conditions = {
    userId: "t.user_id = :userId",
    to: `${searchable('t."to"')} in (${list})`,
    template: "t.template = :template",
    status: "t.status = :status",
  };
  return readPage(
    db,
    {
      ...{ columns: COLUMNS, from: "emails", joins: JOIN_USER },
      ...rowsWhere(conditions, { ...filter, ...values }),
    },
    request,
  );
}
