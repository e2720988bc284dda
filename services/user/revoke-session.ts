import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockCaller } from "../accounts/lock-caller.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { revokeOpenSession } from "../store/sessions.ts";

/** Ends one open session of the caller. Another user's session is NOT_FOUND. @throws ServiceError NOT_FOUND, UNAUTHENTICATED */
export async function revokeOwnSession(call: SignedInCall, sessionId: string): Promise<void> {
  const { id: userId } = call.caller.user;
  await call.em.transactional(async () => {
    await lockCaller(call);
    if (!(await revokeOpenSession(call, sessionId, userId, call.clock.now()))) {
      throw new ServiceError(Reason.NOT_FOUND, "There is no such session.");
    }
    await recordAudit(call, "user.session_revoked", { userId, details: { sessionId } });
  });
}
