import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertStillAdmin } from "../accounts/guards.ts";
import { recordAudit } from "../audit/record.ts";
import type { SystemCall } from "../call.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { Email, requeueEmail } from "../store/emails.ts";

/**
 * Queues a failed e-mail again. The time after which it is given up restarts.
 * @throws ServiceError NOT_FOUND, CONFLICT unless it has failed and its link, if any, is still
 * valid
 */
export async function retryEmail(call: SystemCall, id: string): Promise<void> {
  await call.em.transactional(async () => {
    await assertStillAdmin(call);
    const email = await requeueEmail(call, id, call.clock.now());
    if (!email) {
      if ((await call.em.count(Email, { id })) === 0)
        throw new ServiceError(Reason.NOT_FOUND, "There is no such e-mail.");
      throw new ServiceError(
        Reason.CONFLICT,
        "Only a failed e-mail whose link is still valid can be queued again.",
      );
    }
    await recordAudit(call, "admin.email_retried", {
      userId: email.userId ?? undefined,
      details: { emailId: id },
    });
  });
  call.onComplete.push(() => call.mailWorker.wake());
}
