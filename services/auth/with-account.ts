import { setTimeout as wait } from "node:timers/promises";
import { readEmailAddress } from "../accounts/email-address.ts";
import type { Call } from "../call.ts";
import { User } from "../store/users.ts";

/** Minimum duration in ms. Longer than the work takes, so that the duration reveals nothing. */
const MIN_DURATION_MS = 100;

/**
 * Runs work for the account with an address, unless the account is due for deletion. Takes the same
 * time if there is no account.
 */
export const withAccount = (
  call: Call,
  email: string,
  work: (user: User) => Promise<void>,
): Promise<void> => atAddress(call, email, work, async () => {});

/**
 * Runs one work for the account with an address, and another one if there is none or it is due for
 * deletion. Results and errors of both come after the same time.
 */
export async function atAddress<T>(
  call: Call,
  email: string,
  withUser: (user: User) => Promise<T>,
  without: () => Promise<T>,
): Promise<T> {
  const { canonical } = readEmailAddress(email);
  const find = async () => {
    const user = await call.em.findOne(User, { canonicalEmail: canonical });
    const isFound = user && !user.isService && !user.isDeletionDue(call.clock.now());
    return isFound ? withUser(user) : without();
  };
  const [outcome] = await Promise.allSettled([find(), wait(MIN_DURATION_MS)]);
  if (outcome.status === "rejected") throw outcome.reason;
  return outcome.value;
}
