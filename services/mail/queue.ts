import type { Call } from "../call.ts";
import { hasEmailSince, insertEmail, type NewEmail } from "../store/emails.ts";
import { newId } from "../store/ids.ts";
import type { TemplateName } from "./templates.ts";

/** An e-mail to be sent to the stored address of a user. `variables` fill the template and never hold a secret. */
export type QueuedEmail = Omit<NewEmail, "id"> & { template: TemplateName };

/** What queueing an e-mail needs. */
export type QueueDeps = Pick<Call, "em" | "clock" | "onComplete" | "mailWorker">;

/**
 * Queues an e-mail. Call it in the transaction of its cause: both happen or neither.
 * The worker of this process wakes up when the call has ended.
 */
export async function queueEmail(call: QueueDeps, email: QueuedEmail): Promise<void> {
  const now = call.clock.now();
  await insertEmail(call, { id: newId(now), ...email }, now);
  call.onComplete.push(() => call.mailWorker.wake());
}

const DAY_MS = 86_400_000;

/** Queues an e-mail unless the user has got one of this template in the last 24 hours. The caller's transaction holds a lock of the user's. */
export async function queueDailyEmail(call: QueueDeps, email: QueuedEmail): Promise<void> {
  const since = new Date(call.clock.now().getTime() - DAY_MS);
  if (!(await hasEmailSince(call, email.userId, email.template, since))) await queueEmail(call, email);
}
