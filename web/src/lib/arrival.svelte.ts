import type { FinishExternalRequest } from "@gatehouse/client";
import { type Failure, failureOf } from "./failure.ts";
import { providerAnswer } from "./router.svelte.ts";
import { session } from "./session.svelte.ts";

/**
 * Where somebody stands who has come back from a provider. It outlives the page, which is opened anew by
 * a sign-in.
 */
class Arrival {
  failure = $state.raw<Failure>();
  /** Token of the second step. */
  tempToken = $state<string>();
  /** Token of an account at the provider that is to be connected. */
  identityToken = $state<string>();
  /** Name of the provider. */
  provider = $state(providerAnswer.provider ?? "");
  #answer: Record<string, string> | undefined = providerAnswer;

  /** Finishes with the answer that opened the app, once. */
  async finish(): Promise<void> {
    const { provider = "", state = "", ...others } = this.#answer ?? {};
    if (!this.#answer) return;
    this.#answer = undefined;
    try {
      const { code, iss, error } = others;
      const answer: FinishExternalRequest = { provider, state, code, iss, error };
      const { tempToken, identityToken } = await session.finishExternal(answer);
      this.tempToken = tempToken;
      if (identityToken) await this.#readName(provider);
      this.identityToken = identityToken;
    } catch (thrown) {
      this.failure = failureOf(thrown);
    }
  }

  /** The account is connected, or will not be. */
  end(): void {
    this.tempToken = undefined;
    this.identityToken = undefined;
  }

  async #readName(id: string): Promise<void> {
    const { providers } = await session.api.auth.listSignInMethods();
    this.provider = providers.find((each) => each.id === id)?.name ?? id;
  }
}

export const arrival = new Arrival();
