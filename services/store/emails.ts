import type { ListEmailLogsRequest } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { type Page, type PageRequest, readPage, whereIf } from "./page.ts";
import { type ClockedDb, type Db, type HotDb, newId, prepared } from "./store.ts";
import type { User } from "./users.ts";

export type EmailStatus = "queued" | "sending" | "sent" | "failed";

/** The user whom an e-mail is for, with the address that it goes to. */
export type Recipient = Pick<User, "id" | "email" | "name">;

/** Queues an e-mail, due at once, unless its user is being erased. The text of its one-time token is derived again when it is sent. */
export async function insertEmail(
  { em }: Db,
  to: Recipient,
  email: { template: string; variables: Record<string, string>; tokenId: string | undefined },
  now: Date,
): Promise<void> {
  const { template, variables, tokenId = null } = email;
  await em.execute(
    `insert into emails (id, user_id, "to", template, facts, token_id, status, created_at, next_attempt_at)
     select ?, id, ?, ?, ?, ?, 'queued', ?, ? from users where id = ? for key share`,
    [newId(now), to.email, template, JSON.stringify(variables), tokenId, now, now, to.id],
  );
}

/** When e-mails of a template were queued for a user in the last so many ms, oldest first. Lock the user first. */
export async function recentEmails(
  { em, clock }: ClockedDb,
  userId: string,
  template: string,
  windowMs: number,
): Promise<Date[]> {
  const since = new Date(clock.now().getTime() - windowMs);
  const sql = "select created_at as at from emails where user_id = ? and template = ? and created_at > ? order by id";
  return (await em.execute<{ at: Date }[]>(sql, [userId, template, since])).map(({ at }) => at);
}

/** An e-mail that a worker has claimed. `attempts` includes the current one and identifies the claim. */
export type ClaimedEmail = {
  id: string;
  to: string;
  template: string;
  variables: Record<string, string>;
  tokenId: string | null;
  attempts: number;
  /** When it was queued, or queued again by an administrator. */
  queuedAt: Date;
  /** Its one-time token has expired or was consumed. */
  tokenExpired: boolean;
  /** The user has verified this address. */
  isVerified: boolean;
};

// materialized: else a plan may evaluate "due" repeatedly and claim more than the limit
const CLAIM = prepared(
  "claim_emails",
  `with due as materialized (
     select id from emails where next_attempt_at <= ? order by next_attempt_at, id limit ? for update skip locked)
   update emails as e set status = 'sending', attempts = e.attempts + 1, next_attempt_at = ?
   from due where e.id = due.id
   returning e.id, e."to", e.template, e.facts as variables, e.token_id as "tokenId", e.attempts,
     coalesce(e.retried_at, e.created_at) as "queuedAt",
     e.token_id is not null and not exists (
       select from one_time_tokens t where t.id = e.token_id and t.expires_at > ?) as "tokenExpired",
     exists (select from users u where u.id = e.user_id and u.email = e."to" and u.email_verified_at is not null)
       as "isVerified"`,
);

/** Claims e-mails that are due, oldest first. Others may claim them again from `leaseEnd` on. */
export function claimEmails({ query }: HotDb, now: Date, leaseEnd: Date, limit: number): Promise<ClaimedEmail[]> {
  return query(CLAIM, [now, limit, leaseEnd, now]);
}

type Claim = Pick<ClaimedEmail, "id" | "attempts">;

/** Extends the lease of an e-mail that is being sent. */
export async function extendLease({ em }: Db, { id, attempts }: Claim, leaseEnd: Date): Promise<void> {
  const sql = "update emails set next_attempt_at = ? where id = ? and attempts = ? and status = 'sending'";
  await em.execute(sql, [leaseEnd, id, attempts]);
}

/** How an attempt ended. An absent error leaves the last one. */
export type AttemptResult = {
  status: "sent" | "failed" | "queued";
  sentAt?: Date;
  nextAttemptAt?: Date;
  error?: string;
};

const FINISH = prepared(
  "finish_email",
  `update emails set status = ?, sent_at = ?, next_attempt_at = ?, last_error = coalesce(?, last_error)
   where id = ? and attempts = ?`,
);

/** Records how an attempt ended, unless the e-mail has been claimed again since. */
export async function finishAttempt({ query }: HotDb, { id, attempts }: Claim, result: AttemptResult): Promise<void> {
  const { status, sentAt = null, nextAttemptAt = null, error = null } = result;
  await query(FINISH, [status, sentAt, nextAttemptAt, error, id, attempts]);
}

/**
 * Queues an e-mail again that has failed and whose link, if it has one, still works.
 * @returns its user, null if that one is erased; undefined if there is no such e-mail
 */
export async function requeueEmail({ em }: Db, id: string, now: Date): Promise<string | null | undefined> {
  const [row] = await em.execute<{ userId: string | null }[]>(
    `update emails set status = 'queued', next_attempt_at = ?, retried_at = ?
     where id = ? and status = 'failed' and (token_id is null or exists (
       select from one_time_tokens t where t.id = token_id and t.expires_at > ?))
     returning user_id as "userId"`,
    [now, now, id, now],
  );
  return row?.userId;
}

/** Those of the ids that are e-mails. */
export async function selectStoredEmails({ em }: Db, ids: string[]): Promise<Set<string>> {
  const sql = "select id from emails where id = any(?::uuid[])";
  const rows = await em.execute<{ id: string }[]>(sql, [`{${ids.join(",")}}`]);
  return new Set(rows.map(({ id }) => id));
}

/** Number of e-mails that are not delivered yet, and how long the oldest has been due, in seconds. */
export async function mailQueue({ em }: Db, now: Date): Promise<{ depth: number; lagSeconds: number }> {
  const [row] = await em.execute<{ depth: number; lagSeconds: number | null }[]>(
    `select count(*)::int as depth, extract(epoch from ?::timestamptz - min(next_attempt_at))::float8 as "lagSeconds"
     from emails where next_attempt_at is not null`,
    [now],
  );
  return { depth: row?.depth ?? 0, lagSeconds: Math.max(0, row?.lagSeconds ?? 0) };
}

/** Which e-mails. `to` matches in any case. */
export type EmailFilter = Pick<ListEmailLogsRequest, "userId" | "to" | "template" | "status">;

/** An e-mail without its text and token. */
export type EmailRow = {
  id: string;
  userId: string | null;
  to: string;
  template: string;
  status: EmailStatus;
  attempts: number;
  lastError: string | null;
  createdAt: Date;
  sentAt: Date | null;
  nextAttemptAt: Date | null;
};

const COLUMNS = `t.id, t.user_id as "userId", t."to", t.template, t.status, t.attempts, t.last_error as "lastError",
  t.created_at as "createdAt", t.sent_at as "sentAt", t.next_attempt_at as "nextAttemptAt"`;

/** Lists e-mails, newest first. */
export function listEmails({ em }: Db, filter: EmailFilter, request: PageRequest): Promise<Page<EmailRow>> {
  const where = [
    whereIf(filter.userId, "t.user_id = ?"),
    whereIf(filter.to, `lower(t."to") = lower(?)`),
    whereIf(filter.template, "t.template = ?"),
    whereIf(filter.status, "t.status = ?"),
  ];
  return readPage<EmailRow>(em, { columns: COLUMNS, from: "emails", where }, request);
}

/** Deletes a user's e-mails, queued ones included. */
export async function deleteEmails({ em }: Db, userId: string): Promise<void> {
  await em.execute("delete from emails where user_id = ?", [userId]);
}
