import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call, SignedInCall } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";

/**
 * Locks a user's row until the transaction ends. Whoever changes several rows of a user begins with it: then no two
 * transactions wait for each other crosswise, and a sign-in either sees a new password or is seen by its revocation.
 * @returns false when there is no such user any more.
 */
export async function lockUser(call: Pick<Call, "em">, userId: string): Promise<boolean> {
  const rows = await call.em.execute<unknown[]>("select id from users where id = ? for no key update", [userId]);
  return rows.length > 0;
}

/**
 * Locks the caller's row, and makes sure that their session has not ended since the call was let in.
 * @throws ServiceError UNAUTHENTICATED
 */
export async function lockCaller(call: SignedInCall): Promise<void> {
  await lockUser(call, call.caller.user.id);
  await lockOwnSession(call);
}

/** Makes sure that the caller's session has not ended since the call was let in. @throws ServiceError UNAUTHENTICATED */
export async function lockOwnSession(call: SignedInCall): Promise<void> {
  const { user, session } = call.caller;
  const open = await call.em.execute<unknown[]>(
    "select id from sessions where id = ? and user_id = ? and revoked_at is null for key share",
    [session.id, user.id],
  );
  if (open.length === 0) throw new ServiceError(Reason.UNAUTHENTICATED, "This session has ended. Please sign in.");
}
