import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertRecentAdminSignIn, assertStillAdmin } from "../accounts/guards.ts";
import { endAccess } from "../accounts/reset-access.ts";
import { recordAudit } from "../audit/record.ts";
import { queueReset } from "../auth/reset-password.ts";
import type { SessionCall } from "../call.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { canonicalId } from "../store/ids.ts";
import { lockUser, User } from "../store/users.ts";
import { assertNotSelf, userNotFound } from "./manage-user.ts";

/**
 * Takes every way in from a user, ends all sessions and mails a token that sets a new password.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, SELF_TARGETED, CONFLICT for a
 * protected administrator, FORBIDDEN
 */
export async function resetUserAccess(call: SessionCall, userId: string): Promise<void> {
  const id = canonicalId(userId);
  assertRecentAdminSignIn(call);
  assertNotSelf(call, id, "reset the access of");
  await call.em.transactional(async () => {
    await lockUser(call, id); // waits for a promotion in progress
    await assertStillAdmin(call);
    const user = await call.em.findOne(User, { id });
    if (!user || user.isDeletionDue(call.clock.now())) throw userNotFound();
    if (user.isProtectedAsAdmin(call.clock.now())) {
      const message = "The access of users who are or recently were administrators can't be reset.";
      throw new ServiceError(Reason.CONFLICT, message);
    }
    if (user.isService)
      throw new ServiceError(
        Reason.CONFLICT,
        "The access of service accounts can't be reset: they don't sign in.",
      );
    await endAccess(call, id);
    await recordAudit(call, "admin.access_reset", { userId: id });
    await queueReset(call, user);
  });
}
