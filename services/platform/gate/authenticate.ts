import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { type Limit, LimitKey } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import type { Clock } from "../process/clock.ts";
import { ServiceError } from "../rpc/errors.ts";
import {
  bearerTokenOf,
  readAccessToken,
  refuseAccessToken,
  type SessionClaims,
  type TokenDeps,
} from "./access-token.ts";
import type { Admission } from "./admission.ts";
import { digestOfKey, isApiKey } from "./api-key.ts";
import { createKeyCache, type FindKey, type KeyReference } from "./api-key-cache.ts";
import type { OpenCall } from "./open-calls.ts";
import {
  addressKeys,
  type RateLimiter,
  type RateLimitResult,
  rateLimitHeaders,
  refuseExceeded,
} from "./rate-limiter.ts";

/**
 * The credential of a caller, as far as a port can check it: the access token of a session, which
 * may have ended, or an API key, which may have been revoked within the last second.
 */
export type Credential = SessionCredential | KeyCredential;
export type SessionCredential = { kind: "session" } & SessionClaims;
export type KeyCredential = { kind: "api-key"; digest: string } & KeyReference;

/** The caller in log lines. */
export type LoggedCaller = { userId?: string | undefined; keyId?: string };

export const loggedCaller = (credential: Credential | undefined): LoggedCaller => ({
  userId: credential?.userId,
  ...(credential?.kind === "api-key" && { keyId: credential.keyId }),
});

/** The error for a missing, invalid or expired access token. */
export const unauthenticated = () =>
  new ServiceError(
    Reason.UNAUTHENTICATED,
    "The access token is missing, invalid or expired. Please sign in.",
  );

/** The error for an API key that is unknown, expired or revoked. It does not say which. */
export const invalidKey = () =>
  new ServiceError(Reason.UNAUTHENTICATED, "The API key is invalid, expired or revoked.");

/** Limit on lookups of unknown keys per address. */
const UNKNOWN_KEYS: Pick<Limit, "bucket" | "requests" | "windowSeconds" | "by" | "message"> = {
  bucket: "unknown-key",
  requests: 30,
  windowSeconds: 60,
  by: LimitKey.ADDRESS,
  message: "Too many requests with invalid API keys. Please check the key and try again later.",
};
/** Maximum number of remembered addresses that have exceeded that limit. */
const MAX_BLOCKED = 10_000;

type Options = {
  tokens: TokenDeps;
  clock: Clock;
  admission: Admission;
  rateLimiter: RateLimiter | undefined;
  findKey: FindKey;
};

/** Creates the check of the Authorization header of a port. */
export function createAuthenticator(options: Options) {
  const { tokens, clock, admission, rateLimiter } = options;
  const keys = createKeyCache(options.findKey);
  const blocked = createBlockedAddresses(clock);

  /**
   * Reads an access token. If its signing key has to be loaded, only a few calls per address may
   * wait.
   */
  async function readSession(
    token: string | undefined,
    open: OpenCall,
  ): Promise<SessionCredential> {
    const caller = open.isForwarded ? {} : { address: open.address };
    const admitWait = () => admission.acquire("key-wait", caller).release;
    const claims = await readAccessToken({ ...tokens, admitWait }, token);
    if (!claims) throw unauthenticated();
    return { kind: "session", ...claims };
  }

  /**
   * Finds an API key. A text that cannot be a key causes no lookup. Unknown keys are limited by
   * address; an address that has exceeded the limit may still use keys that were valid before.
   */
  async function readKey(token: string, open: OpenCall): Promise<KeyCredential> {
    const digest = digestOfKey(token);
    if (digest === undefined) throw invalidKey();
    if (!open.isForwarded && !keys.wasValid(digest)) blocked.refuse(open.address);
    const key = await keys.find(digest);
    if (key) return { kind: "api-key", digest, ...key };
    if (!open.isForwarded) await countUnknown(open.address);
    throw invalidKey();
  }

  /** Counts an unknown key of an address. Those that a gateway forwards were counted there. */
  async function countUnknown(address: string): Promise<void> {
    const result = await rateLimiter?.consume(addressKeys(UNKNOWN_KEYS as Limit, address));
    if (result && result.remaining <= 0) blocked.add(address, result);
    if (result && result.remaining < 0) blocked.refuse(address);
  }

  return {
    /**
     * Reads the access token or API key of a call.
     * @throws ServiceError UNAUTHENTICATED, TOO_MANY_CONCURRENT, RATE_LIMITED, UNAVAILABLE
     */
    async authenticate(authorization: string | undefined, open: OpenCall): Promise<Credential> {
      const token = bearerTokenOf(authorization);
      try {
        const isKey = token !== undefined && isApiKey(token);
        const credential = await (isKey ? readKey(token, open) : readSession(token, open));
        if (!open.isForwarded) open.identify(credential.userId);
        return credential;
      } catch (error) {
        if (authorization !== undefined) open.refuse(); // without a token, nothing was looked up
        throw error;
      }
    },
    /** Rejects a credential from now on, because the services have rejected it. */
    refuse(credential: Credential | undefined, authorization: string | undefined): void {
      if (credential?.kind === "api-key") keys.forget(credential.digest);
      else if (credential) refuseAccessToken(tokens, authorization);
    },
  };
}

/** Creates the list of addresses that have exceeded the limit of unknown keys. */
function createBlockedAddresses(clock: Clock) {
  const ends = new Map<string, { at: number; result: RateLimitResult }>();
  return {
    add(address: string, result: RateLimitResult): void {
      ends.set(address, { at: clock.now().getTime() + result.resetMs, result });
      if (ends.size > MAX_BLOCKED) ends.delete(ends.keys().next().value as string);
    },
    /** @throws ServiceError RATE_LIMITED while the address is blocked */
    refuse(address: string): void {
      const end = ends.get(address);
      if (!end) return;
      const resetMs = end.at - clock.now().getTime();
      if (resetMs <= 0 || resetMs > UNKNOWN_KEYS.windowSeconds * 1000) {
        ends.delete(address); // the window has ended, or the clock was set back
        return;
      }
      const result = { ...end.result, remaining: -1, resetMs };
      try {
        refuseExceeded(result, [UNKNOWN_KEYS as Limit]);
      } catch (error) {
        if (error instanceof ServiceError) error.headers.push(...rateLimitHeaders(result));
        throw error;
      }
    },
  };
}
