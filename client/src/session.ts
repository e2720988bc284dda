import { errorOf, GatehouseError, jsonOf, unexpected } from "./errors.ts";

/**
 * Where a client without cookies keeps its refresh token, such as memory, a file or a phone's
 * keychain.
 */
export type TokenStore = {
  get(): string | undefined | Promise<string | undefined>;
  /** Replaces the token; undefined removes it. */
  set(token: string | undefined): void | Promise<void>;
};

/** Runs `work` while no other client with the same refresh token runs its own. */
export type Lock = <T>(work: () => Promise<T>) => Promise<T>;

/** The two tokens of a session. */
export type Tokens = { accessToken: string; refreshToken: string };

type Settings = {
  /** Sends a request to the service. */
  send: (method: string, path: string, headers: Record<string, string>) => Promise<Response>;
  /** Undefined if the browser keeps the token in a cookie. */
  store: TokenStore | undefined;
  lock: Lock;
  onSignedOut: () => void;
};

/** The session of a client: an access token in memory, and at most one refresh at a time. */
export type Session = ReturnType<typeof createSession>;

/** Creates a session, signed out until `begin` or `refresh`. */
export function createSession({ send, store, lock, onSignedOut }: Settings) {
  let accessToken: string | undefined;
  let user: string | undefined; // whose session this is; kept when the session expires
  let generation = 0; // incremented by each sign-in and sign-out, which invalidates refreshes in progress
  let refreshing: Promise<Tokens> | undefined;

  async function begin(tokens: Tokens): Promise<void> {
    generation += 1;
    accessToken = tokens.accessToken;
    user = userOf(accessToken);
    await store?.set(tokens.refreshToken);
  }
  async function end(left?: string): Promise<void> {
    generation += 1;
    const wasSignedIn = accessToken !== undefined;
    accessToken = undefined;
    await store?.set(left);
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
      const error = await errorOf(response);
      if (isRefusal(error) && began === generation) await end();
      throw error;
    }
    const tokens = await jsonOf<Tokens>(response);
    if (!tokens?.accessToken) throw unexpected(response);
    if (began !== generation) return tokens;
    if (user !== undefined && user !== userOf(tokens.accessToken)) {
      await end(tokens.refreshToken); // keep the token: it belongs to the other user
      throw new GatehouseError(REFUSAL, "Another user has signed in.", { status: 401 });
    }
    await begin(tokens);
    return tokens;
  }
  /**
   * Replaces both tokens. Concurrent callers share one exchange.
   * @throws GatehouseError
   */
  function refresh(): Promise<Tokens> {
    refreshing ??= lock(exchange).finally(() => {
      refreshing = undefined;
    });
    return refreshing;
  }
  async function isRefreshed(): Promise<boolean> {
    try {
      await refresh();
      return true;
    } catch (thrown) {
      if (isRefusal(thrown)) return false;
      throw thrown;
    }
  }
  return {
    begin,
    refresh,
    accessToken: () => accessToken,
    /** Ends the session because its user has signed out. */
    end(): Promise<void> {
      user = undefined;
      return end();
    },
    /**
     * Resumes the session of the refresh token, whoever it belongs to.
     * @returns whether there is a session
     */
    resume(): Promise<boolean> {
      user = undefined;
      return isRefreshed();
    },
    /**
     * Replaces an access token that was rejected.
     * @returns whether there is a new token for the same user
     * @throws GatehouseError if that cannot be determined
     */
    async renew(refused: string | undefined): Promise<boolean> {
      const isReplaced = accessToken !== undefined && accessToken !== refused;
      if (!isReplaced && !(await isRefreshed())) return false;
      return refused === undefined || userOf(refused) === userOf(accessToken);
    },
  };
}

/** Only this code ends the session: a proxy's 401 says nothing about it. */
const REFUSAL = "REFRESH_TOKEN_INVALID";
const isRefusal = (thrown: unknown) => thrown instanceof GatehouseError && thrown.code === REFUSAL;

/** Claims of an access token about its user and validity, times in seconds. */
export type Claims = { sub?: string; iat?: number; exp?: number };

/** The claims of an access token, without verifying its signature. Empty if it cannot be parsed. */
export function claimsOf(accessToken = ""): Claims {
  try {
    const [, claims = ""] = accessToken.split(".");
    return JSON.parse(atob(claims.replaceAll("-", "+").replaceAll("_", "/")));
  } catch {
    return {};
  }
}

const userOf = (accessToken: string | undefined) => claimsOf(accessToken).sub;
