import { defineEntity, type InferEntity, p } from "@mikro-orm/core";
import type { ListEmailLogsRequest } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { domainSpellings } from "../platform/rpc/typed-text.ts";
import { newId } from "./ids.ts";
import { type Page, type PageRequest, readPage, rowsWhere } from "./page.ts";
import { searchable } from "./search-indexes.ts";
import { type ClockedDb, type Db, firstRow, oneRow, prepared } from "./statement.ts";
import type { User } from "./users.ts";

/** An e-mail of the queue and of the log. */
export const Email = defineEntity({
  name: "Email",
  tableName: "emails",
  properties: {
    id: p.uuid().primary(),
    userId: p.uuid().nullable(), // null once the account is erased
    to: p.string(),
    template: p.string(),
    variables: p.json().$type<Record<string, string>>().name("facts"),
    tokenId: p.uuid().nullable(), // the one-time token of its link, whose text is derived again when it is sent
    status: p.string().$type<"queued" | "sending" | "sent" | "failed">(),
    attempts: p.integer(),
    lastError: p.text().nullable(),
    createdAt: p.datetime(),
    sentAt: p.datetime().nullable(),
    nextAttemptAt: p.datetime().nullable(), // when it is due or, while it is being sent, when its lease ends
    retriedAt: p.datetime().nullable(), // when an administrator queued it again
  },
});
export interface Email extends InferEntity<typeof Email> {}

/** The user whom an e-mail is for, with the address that it goes to. */
export type Recipient = Pick<User, "id" | "email" | "name">;

/** Queues an e-mail to each recipient, due at once, except to users who are being erased. */
export async function insertEmails(
  { em }: Db,
  recipients: readonly Recipient[],
  { template, variables, tokenId }: Pick<Email, "template" | "variables" | "tokenId">,
  now: Date,
): Promise<void> {
  const emails = recipients.map(({ id: userId, email: to, name }) => {
    return { id: newId(now), user_id: userId, to, facts: { name, ...variables } };
  });
  await em.execute(
    `insert into emails (id, user_id, "to", template, facts, token_id, status, created_at, next_attempt_at)
     select v.id, u.id, v."to", :template, v.facts, :tokenId, 'queued', :now, :now
     from jsonb_to_recordset(:emails::jsonb) as v (id uuid, user_id uuid, "to" text, facts jsonb)
     join users u on u.id = v.user_id for key share of u`,
    { emails: JSON.stringify(emails), template, tokenId, now },
  );
}

/**
 * The e-mails of a template that were queued for a user in the last so many ms, oldest first. Lock
 * the user first.
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
 * An e-mail that a worker has claimed. `attempts` includes the current one and identifies the
 * claim.
 */
export type ClaimedEmail = Pick<
  Email,
  "id" | "to" | "template" | "variables" | "tokenId" | "attempts"
> & {
  /** When it was queued, or queued again by an administrator. */
  queuedAt: Date;
  /** Its one-time token has expired or was consumed. */
  tokenExpired: boolean;
  /** The user has verified this address. */
  isVerified: boolean;
};

/**
 * Claims e-mails that are due, oldest first, for the time of a lease. A lease begins and ends by the
 * clock of the database, so that no wrong clock of a process takes an e-mail from the worker that is
 * sending it.
 */
export const claimEmails = prepared<
  {
    now: Date;
    leaseMs: number;
    limit: number;
    /** Ids of the e-mails that the worker itself is sending. */
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
       as "isVerified"`, // materialized: else a plan may evaluate "due" repeatedly and claim more than the limit
);

/** Identifies a claim: another worker that claims the e-mail later has a further attempt. */
type Claim = Pick<ClaimedEmail, "id" | "attempts">;

/** Extends the leases of e-mails that are being sent, unless another worker has claimed them. */
export const extendLeases = prepared<{ ids: string[]; attempts: number[]; leaseMs: number }>(
  "extend_leases",
  `update emails as e set next_attempt_at = now() + :leaseMs * interval '1 ms'
   from unnest(:ids::uuid[], :attempts::int[]) as claim (id, attempts)
   where e.id = claim.id and e.attempts = claim.attempts and e.status = 'sending'`,
);

/** Records the result of an attempt, unless another worker has claimed the e-mail meanwhile. */
export const recordAttempt = ({ em }: Db, { id, attempts }: Claim, result: Partial<Email>) =>
  em.nativeUpdate(Email, { id, attempts, status: "sending" }, result);

/** Queues an e-mail again that has failed and whose link, if it has one, still works. */
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
 * Number of e-mails that are not delivered yet, and how long the oldest has been due, in seconds.
 */
export const mailQueue = (db: Db, now: Date) =>
  oneRow<{ depth: number; lagSeconds: number }>(
    db,
    `select count(*)::int as depth,
       greatest(0, extract(epoch from :now::timestamptz - min(next_attempt_at)))::float8 as "lagSeconds"
     from emails where next_attempt_at is not null`,
    { now },
  );

/** Which e-mails. `to` matches in any case, and in Unicode and punycode. */
export type EmailFilter = Pick<ListEmailLogsRequest, "userId" | "to" | "template" | "status">;

const COLUMNS = `t.id, t.user_id as "userId", t."to", t.template, t.status, t.attempts, t.last_error as "lastError",
  t.created_at as "createdAt", t.sent_at as "sentAt", t.next_attempt_at as "nextAttemptAt"`;

/** Lists e-mails without their texts and tokens, newest first. */
export function listEmails(
  db: Db,
  filter: EmailFilter,
  request: PageRequest,
): Promise<Page<Omit<Email, "variables" | "tokenId" | "retriedAt">>> {
  const addresses = filter.to === undefined ? [] : [filter.to, ...domainSpellings(filter.to)];
  const spellings = Object.fromEntries(addresses.map((to, i) => [`to${i}`, to]));
  const conditions = {
    userId: "t.user_id = :userId",
    to: `${searchable('t."to"')} in (${Object.keys(spellings).map((name) => searchable(`:${name}`))})`,
    template: "t.template = :template",
    status: "t.status = :status",
  };
  return readPage(
    db,
    { columns: COLUMNS, from: "emails", ...rowsWhere(conditions, { ...filter, ...spellings }) },
    request,
  );
}
