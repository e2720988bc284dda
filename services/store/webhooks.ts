import { type Db, firstRow, oneRow, returnsRow } from "./statement.ts";
import { LOCKS } from "./store.ts";

/**
 * Why a webhook is off: at the request of an administrator, because its endpoint is gone, or
 * because it keeps failing.
 */
export type DisabledReason = "requested" | "gone" | "failing";

/** A webhook. Its secrets are encrypted. */
export type Webhook = {
  id: string;
  url: string;
  description: string | null;
  /** Names of events, or `domain.*`. */
  events: string[];
  secret: string;
  /** The secret before the last rotation, which signs until `previousUntil`. */
  previousSecret: string | null;
  previousUntil: Date | null;
  /** Time of the first failed attempt since the last success. */
  failingSince: Date | null;
  disabledAt: Date | null;
  disabledReason: DisabledReason | null;
  createdAt: Date;
};

/** A webhook as administrators see it. */
export type ListedWebhook = Omit<Webhook, "secret" | "previousSecret"> & { queued: number };

const LISTED = `w.id, w.url, w.description, w.events, w.previous_until as "previousUntil", w.failing_since as "failingSince",
  w.disabled_at as "disabledAt", w.disabled_reason as "disabledReason", w.created_at as "createdAt",
  (select count(*)::int from webhook_deliveries d where d.webhook_id = w.id and d.next_attempt_at is not null) as queued`;

/** Lists all webhooks, newest first. */
export const listWebhooks = ({ em }: Db): Promise<ListedWebhook[]> =>
  em.execute(`select ${LISTED} from webhooks w order by w.id desc`);

/**
 * A webhook whose deliveries fail, or that was turned off because of that, with its latest error.
 */
export type FailingWebhook = Pick<
  Webhook,
  "id" | "url" | "description" | "failingSince" | "disabledAt"
> & { lastError: string | null };

/** Lists webhooks that fail or were turned off because of that, newest first. */
export const listFailingWebhooks = ({ em }: Db): Promise<FailingWebhook[]> =>
  em.execute(
    `select w.id, w.url, w.description, w.failing_since as "failingSince", w.disabled_at as "disabledAt",
       (select d.last_error from webhook_deliveries d where d.webhook_id = w.id order by d.id desc limit 1) as "lastError"
     from webhooks w
     where w.disabled_reason in ('gone', 'failing') or w.disabled_at is null and w.failing_since is not null
     order by w.id desc`,
  );

/** Finds a webhook as administrators see it. */
export const findWebhook = (db: Db, id: string): Promise<ListedWebhook | undefined> =>
  firstRow(db, `select ${LISTED} from webhooks w where w.id = :id`, { id });

/** Locks a webhook until the transaction ends: nothing is planned for it in the meantime. */
export const lockWebhook = (db: Db, id: string): Promise<Webhook | undefined> =>
  firstRow(
    db,
    `select w.id, w.url, w.description, w.events, w.secret, w.previous_secret as "previousSecret",
       w.previous_until as "previousUntil", w.failing_since as "failingSince", w.disabled_at as "disabledAt",
       w.disabled_reason as "disabledReason", w.created_at as "createdAt"
     from webhooks w where w.id = :id for update`,
    { id },
  );

/** The position of the newest seal; 0 before the first one. */
const HEAD = "(select coalesce(max(position), 0) from audit_seals)";

/**
 * Inserts a webhook for future events, unless there are already `max` webhooks.
 * @returns false if there are
 */
export async function insertWebhook(
  { em }: Db,
  row: Pick<Webhook, "id" | "url" | "description" | "events" | "secret" | "createdAt">,
  max: number,
): Promise<boolean> {
  await em.execute("select pg_advisory_xact_lock(:addWebhook)", LOCKS);
  return returnsRow(
    { em },
    `insert into webhooks (id, url, description, events, secret, position, created_at)
     select :id, :url, :description, array[:events]::text[], :secret, ${HEAD}, :createdAt
     where (select count(*) from webhooks) < :max returning id`,
    { ...row, max },
  );
}

/**
 * Writes the properties of a webhook that can change. If it is turned on again, it gets only future
 * events. Lock it first.
 */
export async function updateWebhook({ em }: Db, row: Webhook): Promise<void> {
  await em.execute(
    `update webhooks set url = :url, description = :description, events = array[:events]::text[], secret = :secret,
       previous_secret = :previousSecret, previous_until = :previousUntil, failing_since = :failingSince,
       position = case when disabled_at is not null and :disabledAt::timestamptz is null then ${HEAD} else position end,
       disabled_at = :disabledAt, disabled_reason = :disabledReason
     where id = :id`,
    row,
  );
}

/** @returns false if there is no such webhook */
export const deleteWebhook = (db: Db, id: string): Promise<boolean> =>
  returnsRow(db, "delete from webhooks where id = :id returning id", { id });

/** A webhook whose events are being planned. */
export type PlannedWebhook = Pick<Webhook, "id" | "events"> & { position: number };

const TO_PLAN = `from webhooks where disabled_at is null and position < ${HEAD}`;

/** Whether a webhook that is turned on has seals to read. */
export const hasSealsToPlan = (db: Db): Promise<boolean> =>
  returnsRow(db, `select 1 ${TO_PLAN} limit 1`);

/**
 * Locks a webhook that is turned on and has seals to read, until the transaction ends. Skips
 * webhooks that others have locked.
 */
export const lockNextToPlan = (db: Db): Promise<PlannedWebhook | undefined> =>
  firstRow(
    db,
    `select id, events, position::float8 as position ${TO_PLAN} order by position, id limit 1 for update skip locked`,
  );

/**
 * Reads the ids of the events in the next seals.
 * @returns the ids, and the position of the last of these seals
 */
export const readNextSeals = (
  db: Db,
  after: number,
  limit: number,
): Promise<{ ids: string[]; position: number | null }> =>
  oneRow(
    db,
    `select coalesce(array_agg(e.id::text) filter (where e.id is not null), '{}') as ids, max(s.position)::float8 as position
     from (select position, ids from audit_seals where position > :after order by position limit :limit) s
     left join lateral unnest(s.ids) as e (id) on true`,
    { after, limit },
  );

/** Records the last seal whose events have been planned for a webhook. */
export async function movePosition({ em }: Db, id: string, position: number): Promise<void> {
  await em.execute("update webhooks set position = :position where id = :id", { id, position });
}

/** Lists webhooks with a secret that was not encrypted with the current key. */
export const listOutdatedSecrets = (
  { em }: Db,
  prefix: string,
): Promise<Pick<Webhook, "id" | "secret" | "previousSecret">[]> =>
  em.execute(
    `select id, secret, previous_secret as "previousSecret" from webhooks
     where not starts_with(secret, :prefix) or not starts_with(previous_secret, :prefix)`,
    { prefix },
  );

/**
 * Replaces an encrypted secret with its re-encrypted form, in whichever column it is now.
 * @returns the number of replaced secrets
 */
export async function replaceSecret(
  db: Db,
  id: string,
  sealed: string,
  renewed: string,
): Promise<number> {
  const isReplaced = await returnsRow(
    db,
    `update webhooks set secret = case secret when :sealed then :renewed else secret end,
       previous_secret = case previous_secret when :sealed then :renewed else previous_secret end
     where id = :id and :sealed in (secret, previous_secret) returning id`,
    { id, sealed, renewed },
  );
  return isReplaced ? 1 : 0;
}

/** Deletes previous secrets that no longer sign. */
export async function forgetPreviousSecrets({ em }: Db, now: Date): Promise<void> {
  await em.execute(
    "update webhooks set previous_secret = null, previous_until = null where previous_until <= :now",
    { now },
  );
}
