import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { ReplayWebhookRequest } from "../../gen/gatehouse/account/v1/webhook_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertRecentAdminSignIn, assertStillAdmin } from "../accounts/guards.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { invalid, ServiceError } from "../platform/rpc/errors.ts";
import { canonicalId, newId } from "../store/ids.ts";
import {
  findEventsBetween,
  hasDelivery,
  insertDeliveries,
  requeueDelivery,
  requeueEvents,
} from "../store/webhook-deliveries.ts";
import { TEST_EVENT } from "../webhooks/deliver.ts";
import { eventNamesOf } from "../webhooks/events.ts";
import { lockForChange } from "./manage-webhooks.ts";

/** Maximum number of events of one replay: all are queued in one transaction. */
const MAX_REPLAYED = 10_000;

/**
 * Queues an event that shows whether an endpoint works. It is sent once.
 * @returns the id of its delivery
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, FORBIDDEN
 */
export async function testWebhook(call: SessionCall, webhookId: string): Promise<string> {
  assertRecentAdminSignIn(call);
  const now = call.clock.now();
  const id = newId(now);
  await call.em.transactional(async () => {
    const webhook = await lockForChange(call, webhookId);
    await insertDeliveries(call, webhook.id, [{ id, eventId: newId(now), event: TEST_EVENT }], now);
    const details = { id: webhook.id, test: true };
    await recordAudit(call, "admin.webhook_replayed", { userId: undefined, details });
  });
  call.onComplete.push(() => call.webhookWorker.wake());
  return id;
}

/**
 * Queues the events of a period again, with the same ids.
 * @returns the number of events that were not waiting anyway
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, CONFLICT, VALIDATION_FAILED, FORBIDDEN
 */
export async function replayWebhook(
  call: SessionCall,
  request: ReplayWebhookRequest,
): Promise<number> {
  assertRecentAdminSignIn(call);
  const now = call.clock.now();
  const from = request.from ? timestampDate(request.from) : now;
  const to = request.to ? timestampDate(request.to) : now;
  if (to <= from) throw invalid("from", "must be before the end of the period");
  const queued = await call.em.transactional(async () => {
    const webhook = await lockForChange(call, request.id);
    if (webhook.disabledAt) throw webhookOff();
    const names = eventNamesOf(webhook.events);
    const events = await findEventsBetween(call, { from, to }, names, MAX_REPLAYED + 1);
    if (events.length > MAX_REPLAYED)
      throw invalid("from", "must be later: the period has more than 10,000 events");
    const planned = events.map(({ id: eventId, event }) => ({ id: newId(now), eventId, event }));
    const count = await requeueEvents(call, webhook.id, planned, now);
    const period = { from: from.toISOString(), to: to.toISOString() };
    const details = { id: webhook.id, ...period, queued: count };
    await recordAudit(call, "admin.webhook_replayed", { userId: undefined, details });
    return count;
  });
  call.onComplete.push(() => call.webhookWorker.wake());
  return queued;
}

/**
 * Queues a failed delivery again. The time after which it is given up restarts.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, CONFLICT, FORBIDDEN
 */
export async function retryDelivery(call: SessionCall, deliveryId: string): Promise<void> {
  assertRecentAdminSignIn(call);
  const id = canonicalId(deliveryId);
  await call.em.transactional(async () => {
    await assertStillAdmin(call);
    const delivery = await requeueDelivery(call, id, call.clock.now());
    if (!delivery) {
      if (!(await hasDelivery(call, id)))
        throw new ServiceError(Reason.NOT_FOUND, "There is no such delivery.");
      const message = "Only a failed delivery can be queued again, while its webhook is on.";
      throw new ServiceError(Reason.CONFLICT, message);
    }
    const details = { id: delivery.webhookId, deliveryId: id, event: delivery.event };
    await recordAudit(call, "admin.webhook_replayed", { userId: undefined, details });
  });
  call.onComplete.push(() => call.webhookWorker.wake());
}

const webhookOff = () =>
  new ServiceError(Reason.CONFLICT, "This webhook is off. Please turn it on first.");
