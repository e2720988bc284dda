import type { FinishExternalRequest } from "@gatehouse/client";
import { type Failure, failureOf } from "./failure.ts";
import { providerAnswer } from "./router.svelte.ts";
import { session } from "./session.svelte.ts";

/** Storage key of the page that asked for a confirmation, while the user is at the provider. */
const CONFIRMING = "gatehouse-confirming";

/** Storage key of an account that will be connected after a sign-in at another provider. */
const CONNECTING = "gatehouse-connecting";
type Connecting = { identityToken: string; provider: string };

/**
 * Goes to a provider to sign in there.
 * @param connects whether the account that waits for a sign-in is connected afterwards. Then only
 * an existing account counts. Otherwise it is forgotten, since the user may be another one
 */
export async function signInAt(provider: string, connects: boolean): Promise<void> {
  const { identityToken, provider: name } = arrival;
  const waiting = connects && identityToken ? { identityToken, provider: name } : undefined;
  if (waiting) sessionStorage.setItem(CONNECTING, JSON.stringify(waiting));
  else sessionStorage.removeItem(CONNECTING);
  await session.leaveFor(provider, "sign-in", !waiting);
}

function takeConnecting(): Connecting | undefined {
  const text = sessionStorage.getItem(CONNECTING);
  sessionStorage.removeItem(CONNECTING);
  return text === null ? undefined : (JSON.parse(text) as Connecting);
}

/** Goes to a provider that confirms the user. */
export async function confirmAt(provider: string, page: string): Promise<void> {
  sessionStorage.setItem(CONFIRMING, page);
  await session.leaveFor(provider, "prove");
}

/**
 * State of a user who has returned from a provider. It outlives the page, which is reopened by a
 * sign-in.
 */
class Arrival {
  failure = $state.raw<Failure>();
  /** Token of the second step. */
  tempToken = $state<string>();
  /** Token of an account at the provider that can be connected. */
  identityToken = $state<string>();
  /** Name of the provider. */
  provider = $state(providerAnswer.provider ?? "");
  /**
   * The page that asked for a confirmation, if the account at the provider confirms the session
   * instead of being connected.
   */
  confirmsFor = $state<string>();
  #answer: Record<string, string> | undefined = providerAnswer;

  /** Finishes once, with the response that opened the app. */
  async finish(): Promise<void> {
    const { provider = "", state = "", ...others } = this.#answer ?? {};
    if (!this.#answer) return;
    this.#answer = undefined;
    this.confirmsFor = sessionStorage.getItem(CONFIRMING) ?? undefined;
    sessionStorage.removeItem(CONFIRMING);
    const connecting = takeConnecting();
    try {
      const { code, iss, error, user } = others;
      const answer: FinishExternalRequest = { provider, state, code, iss, error, user };
      const { tempToken, identityToken } = await session.finishExternal(answer);
      this.tempToken = tempToken;
      if (identityToken) await this.#readName(provider);
      this.identityToken = identityToken;
      if (connecting && !identityToken) Object.assign(this, connecting);
    } catch (thrown) {
      this.failure = failureOf(thrown);
    }
  }

  /** Called when the account has been connected or will not be. */
  end(): void {
    this.tempToken = undefined;
    this.identityToken = undefined;
    this.confirmsFor = undefined;
  }

  async #readName(id: string): Promise<void> {
    const { providers } = await session.api.auth.listSignInMethods();
    this.provider = providers.find((each) => each.id === id)?.name ?? id;
  }
}

export const arrival = new Arrival();
