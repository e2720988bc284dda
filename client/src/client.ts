import {
  type Api,
  type Call,
  type CallOptions,
  COOKIE_SETTERS,
  createApi,
  type Sent,
  type Stream,
} from "./api.ts";
import {
  type CompletionPiece,
  type CompletionRequest,
  completionBody,
  piecesOf,
} from "./completions.ts";
import { connectionError, errorOf, jsonOf, plainTextOf } from "./errors.ts";
import { chunksOf } from "./events.ts";
import { createPasskeys, type Passkeys } from "./passkeys.ts";
import {
  claimsOf,
  createSession,
  type Lock,
  type Session,
  type TokenStore,
  type Tokens,
} from "./session.ts";

/** Settings of a client. On the service's own pages, none are required. */
export type ClientOptions = {
  /** URL of the service. Default: the origin of the page. */
  baseUrl?: string | undefined;
  /**
   * Where the refresh token is kept: in a cookie (default in browsers) or in a store (default
   * elsewhere: memory).
   */
  refreshToken?: "cookie" | TokenStore | undefined;
  /**
   * Where a client without cookies keeps the token of its device. The token identifies the device
   * at later sign-ins and finishes sign-ins with providers. Default: memory.
   */
  deviceToken?: TokenStore | undefined;
  /**
   * Makes other clients with the same refresh token wait. Default for cookies: a Web Lock across
   * all tabs.
   */
  lock?: Lock | undefined;
  /**
   * Called when the session has ended, either by `auth.logout` or because the service rejected the
   * refresh token.
   */
  onSignedOut?: (() => void) | undefined;
  /** Replaces the global `fetch`. */
  fetch?: typeof globalThis.fetch | undefined;
};

/** All routes, grouped by subject. */
export type Routes = Api & {
  /**
   * Replies with reasoning and tokens. Vendors' packages for `/v1` do more: tools, images,
   * structured output.
   */
  completions: {
    /** Streams a reply by `POST /v1/chat/completions`. */
    stream(
      request: CompletionRequest,
      options?: CallOptions,
    ): AsyncGenerator<CompletionPiece, void>;
  };
};

/** All routes, and the session that they use. */
export type Client = Routes & {
  /** The access token, held in memory. Undefined before the first sign-in or refresh. */
  readonly accessToken: string | undefined;
  /**
   * Resumes the session of the refresh token, for example when a page loads.
   * @returns whether a user is signed in
   */
  resume(): Promise<boolean>;
  /** Passkeys, in a browser. */
  readonly passkeys: Passkeys;
  /**
   * The same routes with another access token, which is never refreshed, such as the one from
   * `admin.impersonate`.
   */
  withAccessToken(accessToken: string): Routes;
};

type Access = Pick<Session, "accessToken" | "renew">;

/** Creates a client. It sends nothing until it is used. */
export function createClient(options: ClientOptions = {}): Client {
  const { baseUrl = "", onSignedOut = () => {}, refreshToken = defaultStore() } = options;
  const fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init)); // looked up on each call, because tracing libraries replace it
  const store = refreshToken === "cookie" ? undefined : refreshToken;
  const device = store && (options.deviceToken ?? inMemory());
  const credentials = store ? "omit" : "include";
  const send = (
    method: string,
    path: string,
    headers: Record<string, string>,
    body?: string,
    signal?: AbortSignal,
  ) =>
    fetch(baseUrl.replace(/\/$/, "") + path, {
      method,
      headers,
      credentials,
      ...(body !== undefined && { body }),
      ...(signal && { signal }),
    }).catch((thrown) => {
      throw connectionError(thrown, signal);
    });
  const lock = options.lock ?? (store ? unlocked : webLock());
  const session = createSession({ send, store, lock, onSignedOut });

  /** Sends a request. If its access token is rejected, sends it again with a new one. */
  async function request(
    access: Access,
    method: string,
    path: string,
    sent: Sent,
    signal?: AbortSignal,
  ) {
    const body = sent.body && JSON.stringify(sent.body);
    const deviceToken = path.startsWith("/auth/") ? await device?.get() : undefined;
    const attempt = (token = access.accessToken()) => {
      const headers = {
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(deviceToken !== undefined && { cookie: `device=${deviceToken}` }),
      };
      return send(method, path + queryOf(sent.query), headers, body, signal);
    };
    const used = access.accessToken();
    let response = await attempt(used);
    if (response.status === 401) {
      const error = await errorOf(response);
      if (error.code !== "UNAUTHENTICATED" || !(await unlessAborted(access.renew(used), signal)))
        throw error;
      response = await attempt();
    }
    if (!response.ok && response.status !== sent.accepts) throw await errorOf(response);
    const given = device && deviceTokenIn(response);
    if (given) await device.set(given);
    return response;
  }
  function apiWith(
    access: Access,
    onResult: (path: string, result: unknown) => Promise<void>,
  ): Routes {
    const call: Call = async <T>(
      method: string,
      path: string,
      sent: Sent,
      { signal }: CallOptions = {},
    ) => {
      if (path === "/auth/refresh") return (await session.refresh()) as T;
      // what sets a cookie takes the lock: a refresh in another tab would otherwise replace or
      // clear that of a sign-in, and two tabs that begin at once would each become another device
      const response = await (COOKIE_SETTERS.includes(path)
        ? lock(() => request(anonymous, method, path, sent, signal))
        : request(access, method, path, sent, signal));
      const result = await (sent.isText
        ? plainTextOf(response, signal)
        : jsonOf<T>(response, signal));
      await onResult(path, result);
      return result as T;
    };
    const stream: Stream = async function* (path, body, { signal } = {}) {
      yield* chunksOf(await request(access, "POST", path, { body }, signal), signal);
    };
    const complete: Routes["completions"]["stream"] = async function* (wanted, options = {}) {
      const { signal } = options;
      const sent = { body: completionBody(wanted) };
      yield* piecesOf(await request(access, "POST", "/v1/chat/completions", sent, signal), signal);
    };
    return { ...createApi(call, stream), completions: { stream: complete } };
  }
  /** Starts or ends the session after a route that signs in or out. */
  async function follow(path: string, result: unknown): Promise<void> {
    if (path === "/auth/logout") return session.end();
    const tokens = result as Partial<Tokens>;
    if (path.startsWith("/auth/") && tokens.accessToken) await session.begin(tokens as Tokens);
  }
  const api = apiWith(session, follow);
  return {
    ...api,
    passkeys: createPasskeys(api, () => claimsOf(session.accessToken())?.sub),
    get accessToken() {
      return session.accessToken();
    },
    resume: session.resume,
    withAccessToken: (token) => apiWith({ ...anonymous, accessToken: () => token }, async () => {}),
  };
}

const anonymous: Access = { accessToken: () => undefined, renew: async () => false };

/** The result of shared work, unless this caller's signal aborts first. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort);
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

const unlocked: Lock = (work) => work();

type Locks = { request<T>(name: string, work: () => Promise<T>): Promise<T> };

/**
 * A lock shared by all tabs of an origin: a second tab then sends the cookie that the first has
 * received.
 */
function webLock(): Lock {
  const { navigator } = globalThis as { navigator?: { locks?: Locks } };
  const locks = navigator?.locks; // not available without https
  return locks ? (work) => locks.request("gatehouse-refresh", work) : unlocked;
}

/** In browsers, the token is kept in a cookie; elsewhere, in memory. */
const defaultStore = (): "cookie" | TokenStore =>
  "document" in globalThis ? "cookie" : inMemory();

function inMemory(): TokenStore {
  let held: string | undefined;
  return {
    get: () => held,
    set: (token) => {
      held = token;
    },
  };
}

/** The device token in a response. React Native joins all cookies in one header. */
function deviceTokenIn({ headers }: Response): string | undefined {
  const { getSetCookie } = headers as { getSetCookie?: () => string[] };
  const cookies = getSetCookie?.call(headers).join() ?? headers.get("set-cookie") ?? "";
  return /(?:^|[\s,])device=([\w-]+)/.exec(cookies)?.[1];
}

/** The query string. Built by hand, because React Native's `URLSearchParams` is incomplete. */
function queryOf(query: object = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = given
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
    .join("&");
  return text && `?${text}`;
}
