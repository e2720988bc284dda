import { AWAY_MESSAGE, ServiceError, unavailable } from "../rpc/errors.ts";

/** An API key as a port knows it. */
export type KeyReference = {
  userId: string;
  keyId: string;
  /** Whether the owner is a service account, each of whose keys has its own limits. */
  isService: boolean;
  /** The key's own limit; undefined if it has none. */
  requestsPerMinute: number | undefined;
};

/** Finds a usable key by its digest, in hexadecimal. */
export type FindKey = (digest: string) => Promise<KeyReference | undefined>;

/**
 * Age from which a port looks a cached key up again, in ms. The services still read the key for
 * every call.
 */
const FRESH_MS = 750;
/** Maximum number of cached keys; the oldest is removed first. */
const MAX_KEYS = 10_000;

/**
 * Creates a cache of the keys that a port has found, so that a busy key causes about one lookup per
 * second and its calls do not wait for lookups. Unknown keys are not cached.
 */
export function createKeyCache(find: FindKey) {
  const known = new Map<string, { key: KeyReference; readAt: number }>();
  const pending = new Map<string, Promise<KeyReference | undefined>>();

  async function look(digest: string): Promise<KeyReference | undefined> {
    const readAt = performance.now();
    const key = await find(digest).catch((error) => {
      throw error instanceof ServiceError ? error : unavailable(AWAY_MESSAGE);
    });
    known.delete(digest);
    if (!key) return undefined;
    known.set(digest, { key, readAt });
    if (known.size > MAX_KEYS) known.delete(known.keys().next().value as string);
    return key;
  }

  return {
    /**
     * Finds a key. Concurrent callers share a lookup. A call with a cached key does not wait for
     * it: the services refuse the call if the key has been revoked.
     * @throws ServiceError UNAVAILABLE if keys can't be looked up
     */
    async find(digest: string): Promise<KeyReference | undefined> {
      const entry = known.get(digest);
      if (entry && performance.now() - entry.readAt < FRESH_MS) return entry.key;
      const shared = pending.get(digest) ?? look(digest).finally(() => pending.delete(digest));
      pending.set(digest, shared);
      if (!entry) return shared;
      shared.catch(() => {}); // the services cannot read it either, and fail the call
      return entry.key;
    },
    /** Whether the key was valid when it was last looked up. */
    wasValid: (digest: string): boolean => known.has(digest),
    /** Forgets a key that the services have rejected. */
    forget: (digest: string): void => void known.delete(digest),
  };
}
