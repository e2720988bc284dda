/** What is known when a person returns from a provider. */
export type Arrival = {
  /** Whether the identity is connected to a user. */
  isConnected: boolean;
  /** The account that has the reported address, if any. */
  account: "none" | "verified" | "never-verified";
  /** Whether the provider reports an address, and whether that is proven. */
  address: "none" | "unproven" | "proven";
  /** Whether this browser or app has signed in to that account before. */
  isKnownDevice: boolean;
};

/**
 * The result: a sign-in; a new account; the account with the same address, taken back or kept; a
 * token with which the owner of an account connects the identity; or a refusal.
 */
export type Arrived =
  | "sign-in"
  | "create"
  | "take-back"
  | "attach"
  | "identity-token"
  | "email-missing";

/**
 * Decides who gets in. An identity is never connected because of its address alone: an account with
 * a verified address is opened only by its owner. An account that was never verified may have been
 * created by somebody else. Whoever proves its address gets it emptied or, on a device that has
 * signed in to it before, unchanged.
 */
export function resolveArrival({ isConnected, account, address, isKnownDevice }: Arrival): Arrived {
  if (isConnected) return "sign-in";
  if (address === "none") return "email-missing";
  if (account === "none") return "create";
  if (account === "verified" || address === "unproven") return "identity-token";
  return isKnownDevice ? "attach" : "take-back";
}
