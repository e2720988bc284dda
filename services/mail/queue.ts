import type { Call } from "../call.ts";
import { emailTimes, insertEmail, type NewEmail } from "../store/emails.ts";
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

/** When a user got e-mails of a template in the last so many ms. Lock the user first. */
export function recentEmails(
  call: QueueDeps,
  userId: string,
  template: TemplateName,
  windowMs: number,
): Promise<Date[]> {
  return emailTimes(call, userId, template, new Date(call.clock.now().getTime() - windowMs));
}

/** Queues an e-mail unless the user has got one of this template in the last 24 hours. */
export async function queueDailyEmail(call: QueueDeps, email: QueuedEmail): Promise<void> {
  const recent = await recentEmails(call, email.userId, email.template, DAY_MS);
  if (recent.length === 0) await queueEmail(call, email);
}
