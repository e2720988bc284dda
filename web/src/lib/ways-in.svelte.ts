import type { GetSignInMethodsResponse } from "@gatehouse/client";
import { refusalOf } from "./offers.ts";
import { session } from "./session.svelte.ts";

/** The ways in which the viewer can sign in, as of the last `load`. */
class WaysIn {
  #known = $state.raw<{ userId: string; ways: GetSignInMethodsResponse }>();
  readonly #ways = $derived(
    this.#known?.userId === session.viewer?.id ? this.#known?.ways : undefined,
  );
  /** True until it is known, as for most accounts. */
  readonly hasPassword = $derived(this.#ways?.hasPassword ?? true);
  readonly hasPasskeys = $derived((this.#ways?.passkeys ?? 0) > 0);
  readonly hasIdentities = $derived((this.#ways?.identities ?? 0) > 0);
  readonly hasEmailCode = $derived(this.#ways?.emailCode ?? false);

  /** Reloads them, except for an administrator who acts as another user, who may not read them. */
  async load(): Promise<void> {
    const userId = session.viewer?.id;
    if (!userId || refusalOf("getSignInMethods", session.actor)) return;
    this.#known = { userId, ways: await session.api.user.getSignInMethods() };
  }
}

export const waysIn = new WaysIn();
