import {
  type Client,
  claimsOf,
  createClient,
  type FinishExternalRequest,
  GatehouseError,
  type PasskeySignIn,
  type User,
  type VerifyEmailCodeRequest,
} from "@gatehouse/client";
import { loadBrand } from "./brand.svelte.ts";
import { reconcile } from "./language.svelte.ts";
import { fetchVisibly } from "./net.svelte.ts";
import type { Actor } from "./offers.ts";
import { basePath, route } from "./router.svelte.ts";
import { toast } from "./toasts.svelte.ts";

type Routes = ReturnType<Client["withAccessToken"]>;
type Impersonation = { routes: Routes; user: User; endsAt: Date; life: AbortController };
type Waiting = { tempToken?: string | undefined; mfaMethods?: string[] | undefined };
type Message = { type: "signed-in"; userId: string } | { type: "signed-out" };

/** The base URL of the API: that of the app, unless the app was built for another origin. */
export const baseUrl: string = import.meta.env.VITE_API_URL ?? basePath.slice(0, -1);

/** The absolute URL of an API path, for use in other programs. */
export const apiUrl = (path: string): string => new URL(baseUrl + path, location.href).href;
/** Set while this browser has a session, so that a first visit sends no request to resume one. */
const MARK = "gatehouse-signed-in";
const tabs = new BroadcastChannel("gatehouse");

/** The signed-in user, the same in all tabs. */
class Session {
  phase = $state<"starting" | "ready" | "unreachable">("starting");
  /** The user who is signed in to this browser. */
  user = $state.raw<User>();
  /**
   * Whether the session has ended while its page, with everything that was typed, is still shown.
   */
  isExpired = $state(false);
  impersonation = $state.raw<Impersonation>();
  /**
   * Second factors that can complete the pending sign-in; empty if these are the app and the backup
   * codes.
   */
  factors = $state.raw<readonly string[]>([]);
  #client = this.#createClient();
  #life = new AbortController();

  /** The user whose data is shown. */
  readonly viewer = $derived(this.impersonation?.user ?? this.user);
  /** The actor, for `refusalOf`. */
  readonly actor = $derived<Actor>({
    viewer: this.viewer,
    isImpersonating: this.impersonation !== undefined,
  });

  constructor() {
    tabs.onmessage = ({ data }: MessageEvent<Message>) => {
      if (data.type === "signed-out") this.#forget();
      else if (this.user && this.user.id !== data.userId) location.reload();
      else if (!this.user || this.isExpired) this.start();
    };
  }

  /** The routes of the API, called as the viewer. */
  get api(): Routes {
    return this.impersonation?.routes ?? this.#client;
  }

  /** Aborts when the viewer signs out or leaves an impersonation: their requests end. */
  get leaving(): AbortSignal {
    return (this.impersonation?.life ?? this.#life).signal;
  }

  /** Continues the session of this browser, if there is one. */
  async start(): Promise<void> {
    try {
      const branded = loadBrand(this.#client.app, baseUrl);
      if (localStorage.getItem(MARK) && (await this.#client.resume())) await this.reload();
      else localStorage.removeItem(MARK);
      await branded;
      this.phase = "ready";
    } catch {
      if (this.phase !== "ready") this.phase = "unreachable"; // a page that is already shown keeps what was typed
    }
  }

  /** Reads the profile again. */
  async reload(): Promise<void> {
    const user = await this.api.user.getProfile();
    if (this.impersonation) {
      this.impersonation = { ...this.impersonation, user };
      return;
    }
    this.user = user;
    this.isExpired = false;
    await this.storeLanguage();
  }

  /**
   * Stores the language of the page with the account, for e-mails. If it fails, it is stored next
   * time.
   */
  async storeLanguage(): Promise<void> {
    if (!this.user || this.isExpired) return;
    const locale = reconcile(this.user.locale);
    if (!locale) return;
    this.user = { ...this.user, locale };
    await this.#client.user.updateProfile({ locale }).catch(() => {});
  }

  /**
   * Signs in.
   * @returns the token of the second step, if a second factor is required
   */
  async signIn(email: string, password: string): Promise<string | undefined> {
    const answer = await this.#client.auth.login({ email, password });
    if (answer.requiresMfa) return this.#wait(answer);
    await this.#begin(answer);
    return undefined;
  }

  /**
   * Signs in with a mailed code, or with the token of its link.
   * @returns the token of the second step, if a second factor is required
   */
  async signInByCode(proof: VerifyEmailCodeRequest): Promise<string | undefined> {
    const answer = await this.#client.auth.verifyEmailCode(proof);
    if (answer.requiresMfa) return this.#wait(answer);
    await this.#begin(answer);
    return undefined;
  }

  async verifyMfa(
    tempToken: string,
    code: { code: string } | { backupCode: string },
  ): Promise<void> {
    await this.#begin(await this.#client.auth.verifyMfa({ tempToken, ...code }));
  }

  /** Passkeys of the user who is signed in to this browser. */
  get passkeys(): Client["passkeys"] {
    return this.#client.passkeys;
  }

  /** Signs in with a passkey, or completes the second step with one. */
  async signInWithPasskey(settings: PasskeySignIn): Promise<void> {
    await this.#begin(await this.#client.passkeys.signIn(settings));
  }

  /**
   * Goes to the page of a provider, to sign in or to prove the ownership of an account there.
   * @param acceptTerms whether the sign-in may create an account
   */
  async leaveFor(
    provider: string,
    purpose: "sign-in" | "prove",
    acceptTerms = purpose === "sign-in",
  ): Promise<void> {
    const request = { provider, purpose, acceptTerms };
    const { authorizationUrl } = await this.#client.auth.startExternal(request);
    location.assign(authorizationUrl);
  }

  /**
   * Finishes a sign-in with a provider.
   * @returns the token of the second step, or of an identity that can be connected
   */
  async finishExternal(
    answer: FinishExternalRequest,
  ): Promise<{ tempToken?: string | undefined; identityToken?: string | undefined }> {
    const finished = await this.#client.auth.finishExternal(answer);
    const { identityToken } = finished;
    const tempToken = finished.requiresMfa ? this.#wait(finished) : undefined;
    if (finished.accessToken) await this.#begin(finished);
    return { tempToken, identityToken };
  }

  /** Signs out every tab of this browser. */
  async signOut(): Promise<void> {
    if (this.impersonation) await this.leave();
    const userId = this.user?.id ?? "";
    this.#endRequests();
    await this.#client.auth.logout().catch((thrown) => {
      if (!(thrown instanceof GatehouseError && thrown.code === "UNAUTHENTICATED")) throw thrown; // unless the session has already ended
    });
    const { forgetConversations } = await import("./conversations.svelte.ts");
    await forgetConversations(userId);
    this.ended();
  }

  /** Ends the session intentionally, for example after a deletion. */
  ended(): void {
    tabs.postMessage({ type: "signed-out" } satisfies Message);
    this.#forget();
  }

  async impersonate(userId: string, reason: string): Promise<void> {
    const { accessToken, user } = await this.#client.admin.impersonate(userId, { reason });
    const routes = this.#client.withAccessToken(accessToken);
    const { exp = 0, iat = 0 } = claimsOf(accessToken);
    const endsAt = new Date(Date.now() + (exp - iat) * 1000); // by the clock of this device, which may be wrong
    this.impersonation = { routes, user, endsAt, life: new AbortController() };
    route.open("/");
  }

  /** Returns to the administrator's own session and ends the impersonation. */
  async leave(): Promise<void> {
    const left = this.impersonation;
    if (!left) return;
    this.impersonation = undefined;
    left.life.abort();
    route.open(`/admin/users/${left.user.id}`);
    await left.routes.auth.logout().catch(() => {}); // it soon expires by itself
    const { forgetConversations } = await import("./conversations.svelte.ts");
    await forgetConversations(left.user.id, true); // they belong to another person
  }

  /** @returns the token of the second step */
  #wait({ tempToken, mfaMethods = [] }: Waiting): string | undefined {
    this.factors = mfaMethods;
    return tempToken;
  }

  async #begin({
    passwordExpired,
    restored,
  }: {
    passwordExpired?: boolean | undefined;
    restored?: boolean | undefined;
  }): Promise<void> {
    const before = this.user?.id; // a user whose session has expired
    localStorage.setItem(MARK, "yes");
    await this.reload();
    const userId = this.user?.id ?? "";
    tabs.postMessage({ type: "signed-in", userId } satisfies Message);
    if (restored) toast("account.restored");
    if (passwordExpired) toast("account.passwordExpired");
    if (before !== userId && before) {
      this.#endRequests();
      route.open("/");
    }
  }

  /** Aborts the requests of the user of this browser. */
  #endRequests(): void {
    this.#life.abort();
    this.#life = new AbortController();
  }

  #forget(): void {
    localStorage.removeItem(MARK);
    this.impersonation?.life.abort();
    this.#endRequests();
    this.#client = this.#createClient(); // the previous client still has its access token
    this.user = undefined;
    this.impersonation = undefined;
    this.isExpired = false;
    route.open("/sign-in");
  }

  #createClient(): Client {
    const client = createClient({
      baseUrl,
      fetch: fetchVisibly,
      onSignedOut: () => {
        if (client === this.#client) this.isExpired = true;
      },
    });
    return client;
  }
}

export const session = new Session();
