import { session } from "./session.svelte.ts";
import { signInMethods } from "./sign-in-methods.ts";

/** Prefix of a key in local storage, followed by the id of a user who was offered a passkey. */
const MARK = "gatehouse-passkey-offered-";

/** Offers once per user and browser to add a passkey, after a sign-in with a password. */
class PasskeyOffer {
  #to = $state<string>();
  readonly isMade = $derived(this.#to !== undefined && this.#to === session.viewer?.id);

  /**
   * Makes the offer if the user, who has signed in with a password, has no passkey and can use one
   * on this page.
   */
  async consider(): Promise<void> {
    const userId = session.user?.id ?? "";
    if (!session.passkeys.isSupported() || localStorage.getItem(MARK + userId)) return;
    if (!(await signInMethods()).passkey) return;
    const { options } = await session.api.user.createPasskeyOptions({ purpose: "register" });
    const domain = options.rp?.id ?? "";
    const { hostname } = location;
    const isUsable = hostname === domain || hostname.endsWith(`.${domain}`);
    if (!isUsable || options.excludeCredentials.length > 0) return;
    localStorage.setItem(MARK + userId, "yes");
    this.#to = userId;
  }

  end(): void {
    this.#to = undefined;
  }
}

export const passkeyOffer = new PasskeyOffer();
