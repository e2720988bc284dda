import type { Call } from "../call.ts";
import { insertEmail, type NewEmail } from "../store/emails.ts";
import { newId } from "../store/ids.ts";
import type { TemplateName } from "./templates.ts";

/** An e-mail to be sent to the stored address of a user. `variables` fill the template and never hold a secret. */
export type QueuedEmail = Omit<NewEmail, "id"> & { template: TemplateName };

/**
 * Queues an e-mail. Call it in the transaction of its cause: both happen or neither.
 * The worker of this process wakes up when the call has ended.
 */
export async function queueEmail(
  call: Pick<Call, "em" | "clock" | "onComplete" | "mailWorker">,
  email: QueuedEmail,
): Promise<void> {
  const now = call.clock.now();
  await insertEmail(call, { id: newId(now), ...email }, now);
  call.onComplete.push(() => call.mailWorker.wake());
}
