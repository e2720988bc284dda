import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { SystemCall } from "../call.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { User } from "../store/users.ts";

/** How many ways to sign in an account has, by kind. */
export type WaysIn = { password: number };

/** Counts the ways in of an account. Lock the user first where the answer must stay true. */
export async function countWaysIn({ em }: Pick<SystemCall, "em">, userId: string): Promise<WaysIn> {
  return { password: await em.count(User, { id: userId, hasPassword: true }) };
}

/**
 * Checks that an account keeps a way in without one of a kind. Call it in the transaction of the
 * removal, which has locked the user: of two removals at once the second sees the first.
 * @throws ServiceError LAST_SIGN_IN_METHOD
 */
export async function assertOtherWayIn(
  call: Pick<SystemCall, "em">,
  userId: string,
  removed: keyof WaysIn,
): Promise<void> {
  const ways = await countWaysIn(call, userId);
  const total = Object.values(ways).reduce((sum, count) => sum + count, 0);
  if (total > Math.min(1, ways[removed])) return;
  throw new ServiceError(
    Reason.LAST_SIGN_IN_METHOD,
    "This is the last way to sign in to this account. Please add another one first.",
  );
}
