import type { SystemCall } from "../call.ts";
import { insertEmails, type Recipient, recentEmails } from "../store/emails.ts";
import { circumstancesOf } from "./circumstances.ts";
import { isNotice } from "./templates.ts";
import type { TemplateName } from "./texts.ts";

/**
 * Maximum number of e-mails of one template per user and hour, so that strangers cannot flood a mailbox. It also holds
 * without rate limits: a limiter in front of the service counts requests, not the e-mails that one mailbox gets.
 */
const MAX_PER_HOUR = 5;
const HOUR_MS = 3_600_000;

/**
 * Queues an e-mail. Call it within the transaction of its cause, so that both happen or neither. This
 * process's worker is woken when the call has ended. Does nothing if the user has received five e-mails
 * of the template within an hour, or has been erased.
 * @param variables values for the template, in addition to the recipient's name and the circumstances; never secrets
 * @param tokenId the one-time token for the link
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
 * Queues an e-mail like `queueEmail`, but to several users and without the limit. Only for e-mails that
 * no stranger can trigger. With a limit, an attacker could use it up first and then act unnoticed.
 */
export async function queueEmails(
  call: SystemCall,
  recipients: readonly Recipient[],
  template: TemplateName,
  variables: Record<string, string> = {},
  tokenId: string | null = null,
): Promise<void> {
  const addressed = recipients.map((to) => {
    const circumstances = isNotice(template) ? circumstancesOf(call, to.id) : {};
    return { ...to, variables: { ...circumstances, ...variables } };
  });
  await insertEmails(call, addressed, { template, tokenId }, call.clock.now());
  call.onComplete.push(() => call.mailWorker.wake());
}

/**
 * Whether a user has reached the hourly limit of a template. Lock the user first.
 */
export async function hasReachedLimit(
  call: SystemCall,
  userId: string,
  template: TemplateName,
): Promise<boolean> {
  return (await recentEmails(call, userId, template, HOUR_MS)).length >= MAX_PER_HOUR;
}

const DAY_MS = 86_400_000;

/** Queues an e-mail unless the user has received one of this template within the last 24 hours. */
export async function queueDailyEmail(
  call: SystemCall,
  to: Recipient,
  template: TemplateName,
  variables: Record<string, string> = {},
): Promise<void> {
  const recent = await recentEmails(call, to.id, template, DAY_MS);
  if (recent.length === 0) await queueEmail(call, to, template, variables);
}
