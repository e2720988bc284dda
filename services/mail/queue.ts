import type { SystemCall } from "../call.ts";
import {
  countNotices,
  countRequestedEmails,
  type EmailCounts,
  insertEmails,
  MAX_UNVERIFIED_NOTICES,
  REQUESTED_EMAILS,
  type Recipient,
  recentEmails,
} from "../store/emails.ts";
import { User } from "../store/users.ts";
import { circumstancesOf } from "./circumstances.ts";
import { isNotice } from "./templates.ts";
import type { TemplateName } from "./texts.ts";

/**
 * Maximum number of e-mails of one template per user and hour, so that strangers cannot flood a
 * mailbox. It also holds without rate limits: a limiter in front of the service counts requests,
 * not the e-mails that one mailbox gets.
 */
const MAX_PER_HOUR = 5;
const HOUR_MS = 3_600_000;
/** The most e-mails to one address that anybody has asked for, of all templates and accounts. */
const MAX_REQUESTED: EmailCounts = { inHour: 6, inDay: 20 };

/**
 * Queues an e-mail. Call it within the transaction of its cause, so that both happen or neither.
 * This process's worker is woken when the call has ended. Does nothing if a limit is reached, see
 * `hasReachedLimit`, or the user has been erased.
 * @param variables values for the template, in addition to the recipient's name and the
 * circumstances; never secrets
 * @param tokenId the one-time token for the link
 */
export async function queueEmail(
  call: SystemCall,
  to: Recipient,
  template: TemplateName,
  variables: Record<string, string> = {},
  tokenId: string | null = null,
): Promise<void> {
  if (await hasReachedLimit(call, to, template)) return;
  await queueEmails(call, [to], template, variables, tokenId);
}

/**
 * Queues an e-mail like `queueEmail`, but to several users and without the limit. Only for e-mails
 * that no stranger can trigger. With a limit, an attacker could use it up first and then act
 * unnoticed.
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
 * Whether a recipient has got as many e-mails as strangers may cause: of the template, of all that
 * anybody can ask for, or of all notices to an address that is not verified, since whoever has
 * entered it can cause every one of them. Notices to a verified address have no limit over all
 * templates: a thief could use it up first. Lock the user first.
 */
export async function hasReachedLimit(
  call: SystemCall,
  to: Pick<Recipient, "id" | "email">,
  template: TemplateName,
): Promise<boolean> {
  return (
    (await hasReachedTemplateLimit(call, to.id, template)) ||
    (await hasReachedTotal(call, to, template))
  );
}

/** Whether a user has reached the hourly limit of a template. Lock the user first. */
export async function hasReachedTemplateLimit(
  call: SystemCall,
  userId: string,
  template: TemplateName,
  most = MAX_PER_HOUR,
): Promise<boolean> {
  return (await recentEmails(call, userId, template, HOUR_MS)).length >= most;
}

async function hasReachedTotal(
  call: SystemCall,
  { id, email }: Pick<Recipient, "id" | "email">,
  template: TemplateName,
): Promise<boolean> {
  if (REQUESTED_EMAILS.includes(template))
    return isReached(await countRequestedEmails(call, email), MAX_REQUESTED);
  const isUnverified = { id, email, emailVerifiedAt: null };
  if ((await call.em.count(User, isUnverified)) === 0) return false;
  return isReached(await countNotices(call, id), MAX_UNVERIFIED_NOTICES);
}

const isReached = (counts: EmailCounts, most: EmailCounts): boolean =>
  counts.inHour >= most.inHour || counts.inDay >= most.inDay;

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
