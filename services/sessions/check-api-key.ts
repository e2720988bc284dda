import type { Logger } from "pino";
import type { KeyReference } from "../platform/gate/api-key-cache.ts";
import { invalidKey, type KeyCredential } from "../platform/gate/authenticate.ts";
import { createBatch } from "../platform/process/batch.ts";
import type { Clock } from "../platform/process/clock.ts";
import { createSharedRead } from "../platform/process/shared-read.ts";
import type { KeyPrincipal } from "../principal.ts";
import { type FoundKey, findUsableKeys, type KeyUse, updateLastUsed } from "../store/api-keys.ts";
import type { HotDb } from "../store/statement.ts";
import type { Store } from "../store/store.ts";

/** Finds a usable key by its digest, in hexadecimal. */
export type FindUsableKey = (digest: string) => Promise<FoundKey | undefined>;

/** Reads keys for every request, without a cache. */
export const createFindKey = (db: HotDb, clock: Clock): FindUsableKey =>
  createSharedRead((digests) => findUsableKeys(db, digests, clock.now()));

/** What a port needs to know of a key. */
export function referenceOf({ user, key, isService }: FoundKey): KeyReference {
  const requestsPerMinute = key.requestsPerMinute ?? undefined;
  return { userId: user.id, keyId: key.id, isService, requestsPerMinute };
}

/**
 * Finds the principal of an API key. The key's row is read for every request, so that every process
 * refuses a revoked one at once.
 * @param lookup of the key, if it has begun
 * @throws ServiceError UNAUTHENTICATED
 */
export async function identifyKey(
  call: {
    findKey: FindUsableKey;
    clock: Clock;
    lastUsed: LastUsed;
    client: { address: string };
  },
  { digest }: KeyCredential,
  onEnded: () => void = () => {},
  lookup: ReturnType<FindUsableKey> = call.findKey(digest),
): Promise<KeyPrincipal> {
  const found = await lookup;
  if (!found) {
    onEnded();
    throw invalidKey();
  }
  const { user, key } = found;
  const at = call.clock.now();
  if (at.getTime() - (key.lastUsedAt?.getTime() ?? 0) >= LAST_USED_RESOLUTION_MS)
    call.lastUsed.set(key.id, { id: key.id, at, ip: call.client.address });
  return { kind: "api-key", user, key, actorId: undefined };
}

/**
 * Resolution of `last_used_at`, in ms. With the interval of the writer it is less than a minute.
 */
const LAST_USED_RESOLUTION_MS = 30_000;

/** The last uses of keys, by their ids. */
export type LastUsed = ReturnType<typeof createLastUsed>;

/** Starts the writer of `last_used_at`, which works off the request path. */
export function createLastUsed(store: Pick<Store, "fork">, log: Pick<Logger, "warn">) {
  return createBatch<KeyUse>({
    name: "last used",
    intervalMs: 1_000,
    batchSize: 500,
    write: (uses) => updateLastUsed({ em: store.fork() }, uses),
    log,
  });
}
