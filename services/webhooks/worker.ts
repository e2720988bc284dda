import { recordAudit } from "../audit/record.ts";
import { type AppContext, systemCall } from "../call.ts";
import { type QueueTimes, startQueue } from "../jobs/queue.ts";
import { queueEmails } from "../mail/queue.ts";
import { every } from "../platform/process/background.ts";
import { findAdmins } from "../store/users.ts";
import {
  claimDeliveries,
  type DeliveryResult,
  disableWebhook,
  extendDeliveries,
  recordDelivery,
} from "../store/webhook-deliveries.ts";
import { lockWebhook } from "../store/webhooks.ts";
import {
  type Attempted,
  type DeliverDeps,
  type DueDelivery,
  deliver,
  WEBHOOK_OFF,
} from "./deliver.ts";
import { planDeliveries } from "./plan.ts";

/** Number of deliveries to one webhook that a process sends at once. */
const PLACES = 10;

/** How often sealed events are planned, in ms, in addition to those that this process seals. */
const PLAN_INTERVAL_MS = 1_000;

/** A delivery takes at most 10 seconds, so closing cancels none. */
const TIMES: QueueTimes = {
  slowMs: 10_000,
  leaseMs: 30_000,
  extendMs: 5_000,
  itemMs: 30_000,
  closeMs: 15_000,
};

type Deps = DeliverDeps &
  Pick<AppContext, "agreedTime" | "mailWorker"> & {
    /** Called after each attempt. */
    countDelivery: (outcome: DeliveryResult["status"]) => void;
  };

/** Starts a worker. It delivers each event at least once, always with the same id. */
export function startWebhookWorker(deps: Deps, times: QueueTimes = TIMES) {
  const { store, clock } = deps;
  const queue = startQueue<DueDelivery, Attempted>(
    {
      name: "webhook deliveries",
      isBusy: () => false, // each webhook has its own places
      async claim(leaseMs, inHand) {
        const mayGiveUp = (await deps.agreedTime.read()) !== undefined;
        const claim = { now: clock.now(), leaseMs, places: PLACES, inHand };
        const deliveries = await claimDeliveries(store, claim);
        const items = deliveries.map((each) => ({ ...each, mayGiveUp }));
        return { items, left: items.length > 0 ? "waiting" : "nothing" };
      },
      extend: (leases) => extendDeliveries(store, leases),
      async attempt(delivery, signal) {
        const attempted = await deliver(deps, delivery, signal);
        deps.countDelivery(attempted.result.status);
        return attempted;
      },
      async record(delivery, { result, failedAt, disable }, isCancelled) {
        const isDue = isCancelled && result.status === "queued";
        const recorded = isDue ? { ...result, nextAttemptAt: clock.now() } : result;
        const db = { em: store.fork() };
        await recordDelivery(db, delivery, recorded, isCancelled ? undefined : failedAt);
        if (disable && !isCancelled) await turnOff(deps, delivery.webhookId, disable);
      },
    },
    times,
    deps,
  );
  const planning = every(
    {
      name: "plan webhook deliveries",
      intervalMs: PLAN_INTERVAL_MS,
      async run(signal) {
        if (await planDeliveries(deps, signal)) queue.wake();
      },
    },
    deps,
  );
  return {
    /** Checks for due deliveries now. */
    wake: queue.wake,
    /** Checks for sealed events now. */
    plan: planning.wake,
    /** Stops once all deliveries have ended. */
    async close() {
      await Promise.all([planning.close(), queue.close()]);
    },
  };
}

/** Turns a webhook off because of its endpoint, and notifies all administrators. */
async function turnOff(
  deps: Deps,
  webhookId: string,
  reason: NonNullable<Attempted["disable"]>,
): Promise<void> {
  const call = systemCall(deps, deps.store, "webhooks");
  await call.em.transactional(async () => {
    const webhook = await lockWebhook(call, webhookId);
    if (!webhook || webhook.disabledAt) return;
    const now = deps.clock.now();
    await disableWebhook(call, webhookId, { reason, why: WEBHOOK_OFF, now });
    const { host } = new URL(webhook.url);
    const details = { id: webhookId, host, change: "disabled", reason };
    await recordAudit(call, "admin.webhook_changed", { userId: undefined, details });
    const variables = { host, reason, ...describe(webhook.description) };
    await queueEmails(call, await findAdmins(call), "webhook-disabled", variables);
    deps.log.warn({ webhook: webhookId, reason }, "a webhook was turned off");
  });
  for (const callback of call.onComplete) callback();
}

const describe = (description: string | null) => (description ? { description } : {});
