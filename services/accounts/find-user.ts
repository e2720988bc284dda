import type { Call } from "../call.ts";
import { User } from "../store/users.ts";
import type { EmailAddress } from "./email-address.ts";

/** Finds the account of an address in any spelling. One whose deletion is due counts as gone, erased yet or not. */
export async function findUserByEmail(
  call: Pick<Call, "em" | "clock">,
  { canonical }: EmailAddress,
): Promise<User | undefined> {
  const user = await call.em.findOne(User, { canonicalEmail: canonical });
  return user && !user.isDeletionDue(call.clock.now()) ? user : undefined;
}
