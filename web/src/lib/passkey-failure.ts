import { GatehouseError } from "@gatehouse/client";
import { type Failure, failureOf } from "./failure.ts";
import { t } from "./language.svelte.ts";

/** The failure to show for an error with a passkey, of the API or of the browser. */
export function passkeyFailureOf(thrown: unknown): Failure {
  if (thrown instanceof GatehouseError) return failureOf(thrown);
  const isKnown = (thrown as { name?: string } | undefined)?.name === "InvalidStateError";
  return { ...failureOf(thrown), message: t(isKnown ? "passkeys.exists" : "passkeys.cancelled") };
}
