import type { Call } from "../call.ts";
import { newId } from "../store/ids.ts";
import type { TemplateName } from "./templates.ts";

/** One e-mail to be sent. */
export type QueuedEmail = {
  userId: string;
  /** The stored address: where mail goes. */
  to: string;
  template: TemplateName;
  /** What the template needs beside the link; never a secret. */
  variables: Record<string, string>;
  /** The one-time token whose text the mail carries. */
  tokenId?: string;
};

/**
 * Queues an e-mail. Call it in the transaction of its cause: both happen or neither.
 * The worker of this process is told once the call has ended.
 */
export async function queueEmail(
  call: Pick<Call, "em" | "clock" | "onComplete" | "mailWorker">,
  email: QueuedEmail,
): Promise<void> {
  const now = call.clock.now();
  await call.em.execute(
    `insert into emails (id, user_id, "to", template, facts, token_id, status, created_at, next_attempt_at)
     values (?, ?, ?, ?, ?, ?, 'queued', ?, ?)`,
    [
      newId(now),
      email.userId,
      email.to,
      email.template,
      JSON.stringify(email.variables),
      email.tokenId ?? null,
      now,
      now,
    ],
  );
  call.onComplete.push(() => call.mailWorker.wake());
}
