import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertRecentSignIn, lockCaller } from "../accounts/guards.ts";
import { assertWayInRemains } from "../accounts/ways-in.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { queueEmail } from "../mail/queue.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { deleteIdentity } from "../store/identities.ts";
import { canonicalId } from "../store/ids.ts";

/**
 * Disconnects an identity of the caller. Another way in must remain.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, LAST_SIGN_IN_METHOD, UNAUTHENTICATED
 */
export async function disconnectIdentity(call: SessionCall, identityId: string): Promise<void> {
  assertRecentSignIn(call);
  const { user } = call.principal;
  const id = canonicalId(identityId);
  await call.em.transactional(async () => {
    await lockCaller(call);
    const removed = await deleteIdentity(call, { id, userId: user.id });
    if (!removed) throw new ServiceError(Reason.NOT_FOUND, "There is no such identity.");
    await assertWayInRemains(call, user.id);
    const details = { identityId: id, provider: removed.provider };
    await recordAudit(call, "user.identity_removed", { userId: user.id, details });
    const provider = call.external.providers.get(removed.provider)?.name ?? removed.provider;
    await queueEmail(call, user, "identity-removed", { provider });
  });
}
