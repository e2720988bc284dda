import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { type AuditDeps, recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";

type Needs = AuditDeps & Pick<Call, "onComplete" | "mailWorker">;

/** Queues a failed e-mail again, for another day at most. @throws ServiceError NOT_FOUND, CONFLICT unless it has failed */
export async function retryEmail(call: Needs, id: string): Promise<void> {
  const now = call.clock.now();
  await call.em.transactional(async () => {
    const [retried] = await call.em.execute<{ user_id: string | null }[]>(
      `update emails set status = 'queued', next_attempt_at = ?, retried_at = ? where id = ? and status = 'failed'
       returning user_id`,
      [now, now, id],
    );
    if (!retried) throw await refusal(call, id);
    await recordAudit(call, "admin.email_retried", { userId: retried.user_id ?? undefined, details: { emailId: id } });
  });
  call.onComplete.push(() => call.mailWorker.wake());
}

async function refusal(call: Needs, id: string): Promise<ServiceError> {
  const known = await call.em.execute<unknown[]>("select 1 from emails where id = ?", [id]);
  return known.length > 0
    ? new ServiceError(Reason.CONFLICT, "Only an e-mail that has failed can be queued again.")
    : new ServiceError(Reason.NOT_FOUND, "There is no such e-mail.");
}
