import { errorOf } from "./errors.ts";

/** Where a client without cookies keeps its refresh token: memory, a file, the keychain of a phone. */
export type TokenStore = {
  get(): string | undefined | Promise<string | undefined>;
  /** Replaces the token; undefined removes it. */
  set(token: string | undefined): void | Promise<void>;
};

/** Runs `work` while no other holder of the same refresh token runs its own. */
export type Lock = <T>(work: () => Promise<T>) => Promise<T>;

/** The two tokens of a session. */
export type Tokens = { accessToken: string; refreshToken: string };

type Settings = {
  /** Sends a request to the service. */
  send: (method: string, path: string, headers: Record<string, string>) => Promise<Response>;
  /** Undefined where the browser keeps the token in a cookie. */
  store: TokenStore | undefined;
  lock: Lock;
  onSignedOut: () => void;
};

/** The session of a client: its access token in memory, and one refresh at a time. */
export type Session = ReturnType<typeof createSession>;

/** Creates a session that is signed out until `begin` or `refresh`. */
export function createSession({ send, store, lock, onSignedOut }: Settings) {
  let accessToken: string | undefined;
  let generation = 0; // grows at each sign-in and sign-out: a refresh that began before has no say
  let refreshing: Promise<Tokens> | undefined;

  async function begin(tokens: Tokens): Promise<void> {
    generation += 1;
    accessToken = tokens.accessToken;
    await store?.set(tokens.refreshToken);
  }
  async function end(): Promise<void> {
    generation += 1;
    const wasSignedIn = accessToken !== undefined;
    accessToken = undefined;
    await store?.set(undefined);
    if (wasSignedIn) onSignedOut();
  }
  async function exchange(): Promise<Tokens> {
    const began = generation;
    const token = await store?.get();
    const response = await send(
      "POST",
      "/auth/refresh",
      token === undefined ? {} : { cookie: `refreshToken=${token}` },
    );
    if (!response.ok) {
      if (response.status === 401 && began === generation) await end();
      throw await errorOf(response);
    }
    const tokens = (await response.json()) as Tokens;
    if (began === generation) await begin(tokens);
    return tokens;
  }
  /** Replaces both tokens. Callers at the same time share one exchange. @throws GatehouseError */
  function refresh(): Promise<Tokens> {
    refreshing ??= lock(exchange).finally(() => {
      refreshing = undefined;
    });
    return refreshing;
  }
  return {
    begin,
    end,
    refresh,
    accessToken: () => accessToken,
    /** Replaces an access token that was refused. @returns whether there is another one @throws GatehouseError if that cannot be known */
    async renew(refused: string | undefined): Promise<boolean> {
      if (accessToken !== undefined && accessToken !== refused) return true;
      try {
        await refresh();
        return true;
      } catch (thrown) {
        if ((thrown as { status?: number }).status === 401) return false;
        throw thrown;
      }
    },
  };
}
