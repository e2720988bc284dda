import type { ListWebhookDeliveriesRequest } from "../../gen/gatehouse/account/v1/webhook_pb.ts";
import type { AuditEventRow } from "./audit-events.ts";
import { lowestId } from "./ids.ts";
import { type Page, type PageRequest, readPage, rowsWhere } from "./page.ts";
import { type Db, firstRow, oneRow, prepared, returnsRow } from "./statement.ts";
import type { DisabledReason } from "./webhooks.ts";

/** One event for one webhook. */
export type WebhookDelivery = {
  id: string;
  webhookId: string;
  eventId: string;
  event: string;
  status: "queued" | "sending" | "delivered" | "failed";
  attempts: number;
  /** When it was queued, or queued again. */
  queuedAt: Date;
  /** When it is due; while it is being sent, when its lease ends; null once neither applies. */
  nextAttemptAt: Date | null;
  responseStatus: number | null;
  lastError: string | null;
  createdAt: Date;
  deliveredAt: Date | null;
};

/** An event to deliver. */
export type PlannedEvent = { id: string; eventId: string; event: string };

/** Queues events for a webhook, due immediately, unless they were queued before. */
export async function insertDeliveries(
  { em }: Db,
  webhookId: string,
  events: readonly PlannedEvent[],
  now: Date,
): Promise<void> {
  await em.execute(
    `insert into webhook_deliveries (id, webhook_id, event_id, event, status, queued_at, next_attempt_at, created_at)
     select v.id, :webhookId, v."eventId", v.event, 'queued', :now, :now, :now
     from jsonb_to_recordset(:events::jsonb) as v (id uuid, "eventId" uuid, event text)
     on conflict (webhook_id, event_id) do nothing`,
    { webhookId, events: JSON.stringify(events), now },
  );
}

/**
 * Queues events for a webhook, whether or not they were queued before. Deliveries that are waiting
 * are not changed.
 * @returns the number of events that were not waiting
 */
export async function requeueEvents(
  db: Db,
  webhookId: string,
  events: readonly PlannedEvent[],
  now: Date,
): Promise<number> {
  const { queued } = await oneRow<{ queued: number }>(
    db,
    `with queued as (
       insert into webhook_deliveries as d (id, webhook_id, event_id, event, status, queued_at, next_attempt_at, created_at)
       select v.id, :webhookId, v."eventId", v.event, 'queued', :now, :now, :now
       from jsonb_to_recordset(:events::jsonb) as v (id uuid, "eventId" uuid, event text)
       on conflict (webhook_id, event_id) do update
         set status = 'queued', queued_at = :now, next_attempt_at = :now, delivered_at = null
         where d.next_attempt_at is null
       returning d.id)
     select count(*)::int as queued from queued`,
    { webhookId, events: JSON.stringify(events), now },
  );
  return queued;
}

/** A delivery claimed by a process, with the required properties of its webhook. */
export type ClaimedDelivery = Pick<
  WebhookDelivery,
  "id" | "webhookId" | "eventId" | "event" | "attempts" | "queuedAt"
> & {
  url: string;
  /** Encrypted: the current secret and, for a while after a rotation, the previous one. */
  secrets: string[];
  isDisabled: boolean;
  failingSince: Date | null;
};

/**
 * Claims due deliveries for the duration of a lease. Each webhook has a limited number of places in
 * this process, so that a slow or failing endpoint delays no other. Leases begin and end by the
 * database's clock, so that a process with a wrong clock never takes a delivery from the one that
 * is sending it.
 */
export const claimDeliveries = prepared<
  {
    now: Date;
    leaseMs: number;
    places: number;
    /** Ids of the deliveries that this process is already sending. */
    inHand: readonly string[];
  },
  ClaimedDelivery
>(
  "claim_webhook_deliveries",
  `with due as materialized (
     select d.id from webhooks w cross join lateral (
       select q.id from webhook_deliveries q
       where q.webhook_id = w.id and q.next_attempt_at <= greatest(:now::timestamptz, now())
         and q.next_attempt_at <= case when q.status = 'sending' then now() else :now::timestamptz end
         and q.id <> all (:inHand::uuid[])
       order by q.next_attempt_at, q.id
       limit greatest(0, :places::int - (
         select count(*) from webhook_deliveries h where h.id = any (:inHand::uuid[]) and h.webhook_id = w.id))
       for update skip locked) as d)
   update webhook_deliveries as d set status = 'sending', attempts = d.attempts + 1,
     next_attempt_at = now() + :leaseMs * interval '1 ms'
   from due, webhooks w where d.id = due.id and w.id = d.webhook_id
   returning d.id, d.webhook_id as "webhookId", d.event_id as "eventId", d.event, d.attempts, d.queued_at as "queuedAt",
     w.url, w.disabled_at is not null as "isDisabled", w.failing_since as "failingSince",
     array_remove(array[w.secret, case when w.previous_until > :now::timestamptz then w.previous_secret end], null) as secrets`,
);

/** Identifies a claim: if another process claims the delivery later, `attempts` is higher. */
type Claim = Pick<ClaimedDelivery, "id" | "attempts">;

/**
 * Extends the leases of deliveries that are being sent, unless another process has claimed them.
 */
export const extendDeliveries = prepared<{ ids: string[]; attempts: number[]; leaseMs: number }>(
  "extend_webhook_deliveries",
  `update webhook_deliveries as d set next_attempt_at = now() + :leaseMs * interval '1 ms'
   from unnest(:ids::uuid[], :attempts::int[]) as claim (id, attempts)
   where d.id = claim.id and d.attempts = claim.attempts and d.status = 'sending'`,
);

/** The result of an attempt. */
export type DeliveryResult = Pick<
  WebhookDelivery,
  "nextAttemptAt" | "responseStatus" | "lastError" | "deliveredAt"
> & { status: "queued" | "delivered" | "failed" };

/**
 * Records the result of an attempt, unless another process has claimed the delivery in the
 * meantime, and the time since which its webhook has been failing.
 * @param failedAt when the endpoint failed; undefined if it did not fail or was not called
 */
export async function recordDelivery(
  { em }: Db,
  claim: Claim,
  result: DeliveryResult,
  failedAt: Date | undefined,
): Promise<void> {
  await em.execute(
    `with recorded as (
       update webhook_deliveries set status = :status, next_attempt_at = :nextAttemptAt, response_status = :responseStatus,
         last_error = :lastError, delivered_at = :deliveredAt
       where id = :id and attempts = :attempts and status = 'sending' returning webhook_id)
     update webhooks as w set failing_since = :failedAt from recorded
     where w.id = recorded.webhook_id and (:status = 'delivered' and w.failing_since is not null
       or :failedAt::timestamptz is not null and w.failing_since is null)`,
    { ...claim, ...result, failedAt: failedAt ?? null },
  );
}

/**
 * Turns a webhook off. Its waiting deliveries fail. Lock it first.
 * @param why the error of these deliveries
 */
export async function disableWebhook(
  { em }: Db,
  id: string,
  { reason, why, now }: { reason: DisabledReason; why: string; now: Date },
): Promise<void> {
  await em.execute(
    "update webhooks set disabled_at = :now, disabled_reason = :reason where id = :id",
    { id, now, reason },
  );
  await em.execute(
    `update webhook_deliveries set status = 'failed', next_attempt_at = null, last_error = :why
     where webhook_id = :id and status = 'queued'`,
    { id, why },
  );
}

/** The event in a delivery. */
export type DeliveredEvent = Pick<
  AuditEventRow,
  "event" | "userId" | "actorId" | "details" | "createdAt"
>;

/** Finds the event of a delivery; undefined once retention has dropped it. */
export const findDeliveredEvent = (db: Db, eventId: string): Promise<DeliveredEvent | undefined> =>
  firstRow(
    db,
    `select event, user_id as "userId", actor_id as "actorId", details, created_at as "createdAt"
     from audit_events where id = :eventId`,
    { eventId },
  );

/**
 * Finds the names of events. The ids are passed as a list, because with a join the planner might
 * read the whole log.
 */
export const findEventNames = (
  { em }: Db,
  ids: string[],
): Promise<{ id: string; event: string }[]> =>
  em.execute("select id, event from audit_events where id = any(array[:ids]::uuid[]) order by id", {
    ids,
  });

/** Finds events of a period by name, oldest first. */
export const findEventsBetween = (
  { em }: Db,
  { from, to }: { from: Date; to: Date },
  names: readonly string[],
  limit: number,
): Promise<{ id: string; event: string }[]> =>
  em.execute(
    `select id, event from audit_events where id >= :from and id < :to
       and event = any(array[:names]::text[])
     order by id limit :limit`,
    { from: lowestId(from), to: lowestId(to), names, limit },
  );

/** Queues a failed delivery again. */
export const requeueDelivery = (
  db: Db,
  id: string,
  now: Date,
): Promise<Pick<WebhookDelivery, "webhookId" | "eventId" | "event"> | undefined> =>
  firstRow(
    db,
    `update webhook_deliveries d set status = 'queued', queued_at = :now, next_attempt_at = :now
     from webhooks w where d.id = :id and d.status = 'failed' and w.id = d.webhook_id and w.disabled_at is null
     returning d.webhook_id as "webhookId", d.event_id as "eventId", d.event`,
    { id, now },
  );

/** Whether a delivery exists. */
export const hasDelivery = (db: Db, id: string): Promise<boolean> =>
  returnsRow(db, "select 1 from webhook_deliveries where id = :id", { id });

/** Number of waiting deliveries, and how long the oldest has been waiting, in seconds. */
export const webhookQueue = (db: Db, now: Date) =>
  oneRow<{ depth: number; oldestSeconds: number }>(
    db,
    `select count(*)::int as depth,
       coalesce(greatest(0, extract(epoch from :now::timestamptz - min(queued_at))), 0)::float8 as "oldestSeconds"
     from webhook_deliveries where next_attempt_at is not null`,
    { now },
  );

/** Filter for deliveries. */
export type DeliveryFilter = Pick<ListWebhookDeliveriesRequest, "webhookId" | "event" | "status">;

/** A delivery as administrators see it. */
type ListedDelivery = Omit<WebhookDelivery, "queuedAt">;

const COLUMNS = `t.id, t.webhook_id as "webhookId", t.event_id as "eventId", t.event, t.status, t.attempts,
  t.next_attempt_at as "nextAttemptAt", t.response_status as "responseStatus", t.last_error as "lastError",
  t.created_at as "createdAt", t.delivered_at as "deliveredAt"`;

/** Lists deliveries, newest first. */
export function listDeliveries(
  db: Db,
  filter: DeliveryFilter,
  request: PageRequest,
): Promise<Page<ListedDelivery>> {
  const conditions = {
    webhookId: "t.webhook_id = :webhookId",
    event: "t.event = :event",
    status: "t.status = :status",
  };
  const query = { columns: COLUMNS, from: "webhook_deliveries", ...rowsWhere(conditions, filter) };
  return readPage(db, query, request);
}
