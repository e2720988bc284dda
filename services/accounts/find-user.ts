import type { Call } from "../call.ts";
import { User } from "../store/user.ts";
import { readEmailAddress } from "./email-address.ts";

/**
 * The account of an address in any of its spellings; one whose deletion is due counts as gone, erased yet or not.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function findUserByEmail(call: Pick<Call, "em" | "clock">, email: string): Promise<User | undefined> {
  const user = await call.em.findOne(User, { canonicalEmail: readEmailAddress(email).canonical });
  return user && !isDeletionDue(user, call.clock.now()) ? user : undefined;
}

/** Whether the time of a requested deletion has come. */
export function isDeletionDue({ deletionAt }: Pick<User, "deletionAt">, now: Date): boolean {
  return deletionAt != null && deletionAt <= now;
}
