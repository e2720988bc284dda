import { setTimeout as wait } from "node:timers/promises";
import { readEmailAddress } from "../accounts/email-address.ts";
import type { Call } from "../call.ts";
import { User } from "../store/users.ts";

/** Minimum duration in ms. Longer than the work takes, so that the duration reveals nothing. */
const MIN_DURATION_MS = 100;

/**
 * Runs work for the account with an address, unless the account is due for deletion. Takes the same time
 * if there is no account.
 */
export async function withAccount(
  call: Call,
  email: string,
  work: (user: User) => Promise<void>,
): Promise<void> {
  const { canonical } = readEmailAddress(email);
  const find = async () => {
    const user = await call.em.findOne(User, { canonicalEmail: canonical });
    if (user && !user.isService && !user.isDeletionDue(call.clock.now())) await work(user);
  };
  const [outcome] = await Promise.allSettled([find(), wait(MIN_DURATION_MS)]);
  if (outcome.status === "rejected") throw outcome.reason;
}
