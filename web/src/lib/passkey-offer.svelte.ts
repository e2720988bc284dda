import { session } from "./session.svelte.ts";
import { signInMethods } from "./sign-in-methods.ts";

/** Set once a passkey was offered in this browser, by the id of the person. */
const MARK = "gatehouse-passkey-offered-";

/** The offer to add a passkey, made once after a sign-in with a password. */
class PasskeyOffer {
  #to = $state<string>();
  readonly isMade = $derived(this.#to !== undefined && this.#to === session.user?.id);

  /** Makes the offer to somebody who has signed in by password, has no passkey and could use one on this page. */
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
