import type { Clock } from "../platform/process/clock.ts";
import { newId } from "../store/ids.ts";
import type { Db } from "../store/statement.ts";
import type { Store } from "../store/store.ts";
import { findEventNames, insertDeliveries } from "../store/webhook-deliveries.ts";
import { hasSealsToPlan, lockNextToPlan, movePosition, readNextSeals } from "../store/webhooks.ts";
import { wantsEvent } from "./events.ts";

/**
 * Number of seals per transaction. A seal has at most a thousand events, usually those of a second.
 */
const SEALS = 10;

type PlanDeps = { store: Pick<Store, "fork">; clock: Clock };

/**
 * Queues a delivery for each sealed event that a webhook subscribes to. The seals are the committed
 * events in one order, and a webhook's position in them moves in the transaction that inserts its
 * deliveries: each event is planned once, however many processes plan or crash.
 * @returns whether there was anything to plan
 */
export async function planDeliveries(deps: PlanDeps, signal: AbortSignal): Promise<boolean> {
  if (!(await hasSealsToPlan({ em: deps.store.fork() }))) return false;
  while (!signal.aborted && (await planNext({ em: deps.store.fork() }, deps.clock)));
  return true;
}

/** @returns whether there may be more */
const planNext = (db: Db, clock: Clock): Promise<boolean> =>
  db.em.transactional(async () => {
    const webhook = await lockNextToPlan(db);
    if (!webhook) return false;
    const { ids, position } = await readNextSeals(db, webhook.position, SEALS);
    if (position === null) return false;
    const events = ids.length > 0 ? await findEventNames(db, ids) : [];
    const now = clock.now();
    const planned = events
      .filter(({ event }) => wantsEvent(webhook.events, event))
      .map(({ id: eventId, event }) => ({ id: newId(now), eventId, event }));
    if (planned.length > 0) await insertDeliveries(db, webhook.id, planned, now);
    await movePosition(db, webhook.id, position);
    return true;
  });
