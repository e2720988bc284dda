import { errorOf, GatehouseError, jsonOf, unexpected } from "./errors.ts";

/**
 * Where a client without cookies keeps its refresh token: memory, a file, the keychain of a phone.
 */
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
  let user: string | undefined; // whose session this is, also after it has ended by itself
  let generation = 0; // grows at each sign-in and sign-out: a refresh that began before has no say
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
      await end(tokens.refreshToken); // it is the other one's
      throw new GatehouseError(REFUSAL, "Somebody else has signed in.", { status: 401 });
    }
    await begin(tokens);
    return tokens;
  }
  /**
   * Replaces both tokens. Callers at the same time share one exchange.
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
     * Continues whatever session the refresh token belongs to.
     * @returns whether there is one
     */
    resume(): Promise<boolean> {
      user = undefined;
      return isRefreshed();
    },
    /**
     * Replaces an access token that was refused.
     * @returns whether there is another one of its user
     * @throws GatehouseError if that cannot be known
     */
    async renew(refused: string | undefined): Promise<boolean> {
      const isReplaced = accessToken !== undefined && accessToken !== refused;
      if (!isReplaced && !(await isRefreshed())) return false;
      return refused === undefined || userOf(refused) === userOf(accessToken);
    },
  };
}

/** A proxy's 401 says nothing about the session. */
const REFUSAL = "REFRESH_TOKEN_INVALID";
const isRefusal = (thrown: unknown) => thrown instanceof GatehouseError && thrown.code === REFUSAL;

/** What an access token says of its user and its time, in seconds. */
export type Claims = { sub?: string; iat?: number; exp?: number };

/** The claims of an access token, without a check of its signature. None if it can't be read. */
export function claimsOf(accessToken = ""): Claims {
  try {
    const [, claims = ""] = accessToken.split(".");
    return JSON.parse(atob(claims.replaceAll("-", "+").replaceAll("_", "/")));
  } catch {
    return {};
  }
}

const userOf = (accessToken: string | undefined) => claimsOf(accessToken).sub;
