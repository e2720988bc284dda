import type { SystemCall } from "../call.ts";
import { insertEmails, type Recipient, recentEmails } from "../store/emails.ts";
import type { TemplateName } from "./templates.ts";

/** E-mails of one template that a user gets per hour, so that strangers cannot fill a mailbox. */
const MAX_PER_HOUR = 5;
const HOUR_MS = 3_600_000;

/**
 * Queues an e-mail. Call it in the transaction of its cause: both happen or neither. The worker of
 * this process wakes up when the call has ended. Does nothing once the user has got five of the
 * template in an hour, or is erased.
 * @param variables fill the template, beside the name of the recipient. They never hold a secret.
 * @param tokenId the one-time token that the text contains
 */
export async function queueEmail(
  call: SystemCall,
  to: Recipient,
  template: TemplateName,
  variables: Record<string, string> = {},
  tokenId: string | null = null,
): Promise<void> {
  if (await hasReachedLimit(call, to.id, template)) return;
  await queueEmails(call, [to], template, variables, tokenId);
}

/**
 * Queues an e-mail as `queueEmail` does, but to several users and however many they have got. For
 * what no stranger can cause: whoever could would use up the limit first, and act unnoticed then.
 */
export async function queueEmails(
  call: SystemCall,
  recipients: readonly Recipient[],
  template: TemplateName,
  variables: Record<string, string> = {},
  tokenId: string | null = null,
): Promise<void> {
  await insertEmails(call, recipients, { template, variables, tokenId }, call.clock.now());
  call.onComplete.push(() => call.mailWorker.wake());
}

/**
 * Whether a user has received the e-mails of a template that an hour allows. Lock the user first.
 */
export async function hasReachedLimit(
  call: SystemCall,
  userId: string,
  template: TemplateName,
): Promise<boolean> {
  return (
    call.config.rateLimits &&
    (await recentEmails(call, userId, template, HOUR_MS)).length >= MAX_PER_HOUR
  );
}

const DAY_MS = 86_400_000;

/** Queues an e-mail unless the user has got one of this template in the last 24 hours. */
export async function queueDailyEmail(
  call: SystemCall,
  to: Recipient,
  template: TemplateName,
  variables: Record<string, string> = {},
): Promise<void> {
  const recent = await recentEmails(call, to.id, template, DAY_MS);
  if (recent.length === 0) await queueEmail(call, to, template, variables);
}
