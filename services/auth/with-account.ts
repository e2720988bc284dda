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
export const withAccount = <T>(
  call: Call,
  email: string,
  work: (user: User) => Promise<T>,
  without?: () => Promise<T>,
): Promise<T | undefined> => {
  const { canonical } = readEmailAddress(email);
  return inEqualTime(async () => {
    const user = await call.em.findOne(User, { canonicalEmail: canonical });
    const isFound = user && !user.isService && !user.isDeletionDue(call.clock.now());
    return isFound ? work(user) : without?.();
  });
};

/** Runs work whose result and error come after the same time, whatever it finds. */
async function inEqualTime<T>(work: () => Promise<T>): Promise<T> {
  const [outcome] = await Promise.allSettled([work(), wait(MIN_DURATION_MS)]);
  if (outcome.status === "rejected") throw outcome.reason;
  return outcome.value;
}
