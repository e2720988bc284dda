import type { Call } from "../call.ts";
import { insertEmail, type Recipient, recentEmails } from "../store/emails.ts";
import type { TemplateName } from "./templates.ts";

export type QueueDeps = Pick<Call, "em" | "clock" | "onComplete" | "mailWorker">;

/**
 * Queues an e-mail. Call it in the transaction of its cause: both happen or neither.
 * The worker of this process wakes up when the call has ended.
 * @param variables fill the template, beside the name of the recipient. They never hold a secret.
 * @param tokenId the one-time token that the text contains
 */
export async function queueEmail(
  call: QueueDeps,
  to: Recipient,
  template: TemplateName,
  variables: Record<string, string> = {},
  tokenId?: string,
): Promise<void> {
  await insertEmail(call, to, { template, variables: { name: to.name, ...variables }, tokenId }, call.clock.now());
  call.onComplete.push(() => call.mailWorker.wake());
}

const DAY_MS = 86_400_000;

/** Queues an e-mail unless the user has got one of this template in the last 24 hours. */
export async function queueDailyEmail(call: QueueDeps, to: Recipient, template: TemplateName): Promise<void> {
  const recent = await recentEmails(call, to.id, template, DAY_MS);
  if (recent.length === 0) await queueEmail(call, to, template);
}
