import { setTimeout as wait } from "node:timers/promises";
import { readEmailAddress } from "../accounts/email-address.ts";
import type { Call } from "../call.ts";
import { User } from "../store/users.ts";

/** Minimum duration, longer than the work, so that it reveals nothing. In ms. */
const MIN_DURATION_MS = 100;

/**
 * Runs work for the account of an address, unless its deletion is due. Takes the same time if there
 * is none.
 */
export async function withAccount(
  call: Call,
  email: string,
  work: (user: User) => Promise<void>,
): Promise<void> {
  const { canonical } = readEmailAddress(email);
  const find = async () => {
    const user = await call.em.findOne(User, { canonicalEmail: canonical });
    if (user && !user.isDeletionDue(call.clock.now())) await work(user);
  };
  const [outcome] = await Promise.allSettled([find(), wait(MIN_DURATION_MS)]);
  if (outcome.status === "rejected") throw outcome.reason;
}
