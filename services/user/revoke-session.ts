import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockCaller } from "../accounts/lock-user.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { IS_OPEN } from "../sessions/find-session.ts";

/** Ends one open session of the caller; another user's does not exist here. @throws ServiceError NOT_FOUND, UNAUTHENTICATED */
export async function revokeOwnSession(call: SignedInCall, sessionId: string): Promise<void> {
  const { id: userId } = call.caller.user;
  await call.em.transactional(async () => {
    await lockCaller(call);
    const now = call.clock.now();
    const ended = await call.em.execute<unknown[]>(
      `update sessions as s set revoked_at = ? where s.id = ? and s.user_id = ? and ${IS_OPEN.replace("$2", "?")}
       returning s.id`,
      [now, sessionId, userId, now],
    );
    if (ended.length === 0) throw new ServiceError(Reason.NOT_FOUND, "There is no such session.");
    await recordAudit(call, "user.session_revoked", { userId, details: { sessionId } });
  });
}
