/** What is known when somebody comes from a provider. */
export type Arrival = {
  /** Whether a user has the identity. */
  isConnected: boolean;
  /** The account that has the reported address, if any. */
  account: "none" | "verified" | "never-verified";
  /** Whether the provider reports an address, and one that its owner has proven. */
  address: "none" | "unproven" | "proven";
  /** Whether this browser or app has signed in to that account before. */
  isKnownDevice: boolean;
};

/**
 * What follows: a sign-in; a new account; the account of the same address, emptied or kept; a token with
 * which the owner of an account connects the identity; or a refusal.
 */
export type Arrived =
  | "sign-in"
  | "create"
  | "take-back"
  | "attach"
  | "identity-token"
  | "email-missing";

/**
 * Decides who gets in. No address links by itself: an account that anybody may have verified is opened
 * by its owner only. An account that was never verified may have been made by somebody else, so whoever
 * proves the address gets it emptied; on a device that has signed in to it before, as it is.
 */
export function resolveArrival({ isConnected, account, address, isKnownDevice }: Arrival): Arrived {
  if (isConnected) return "sign-in";
  if (address === "none") return "email-missing";
  if (account === "none") return "create";
  if (account === "verified" || address === "unproven") return "identity-token";
  return isKnownDevice ? "attach" : "take-back";
}
