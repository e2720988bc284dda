import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { confirmRecently, lockCaller } from "../accounts/guards.ts";
import { namesOf, recordRevokedKey } from "../accounts/revoke-api-keys.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call, SessionCall } from "../call.ts";
import { queueEmail, queueEmails } from "../mail/queue.ts";
import { endOf } from "../mail/templates.ts";
import { createApiKey } from "../platform/gate/api-key.ts";
import { invalid, invalidFields, ServiceError } from "../platform/rpc/errors.ts";
import { ApiKey, countActiveKeys, type ListedKey, revokeKey } from "../store/api-keys.ts";
import { canonicalId, newId } from "../store/ids.ts";

/** What a request says of a new key. */
export type KeyForm = { name: string; expiresAt?: Timestamp | undefined; models: string[] };

/** A new key. `key` is its text, which is not stored. */
export type CreatedKey = { apiKey: ListedKey; key: string };

/**
 * Creates an API key of the caller, and tells the owner by e-mail.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, INVALID_CURRENT_PASSWORD, ACCOUNT_LOCKED,
 * EMAIL_NOT_VERIFIED, VALIDATION_FAILED, CONFLICT, UNAUTHENTICATED
 */
export async function createOwnKey(
  call: SessionCall,
  form: KeyForm,
  password: string | undefined,
): Promise<CreatedKey> {
  const { user } = call.principal;
  assertKnownModels(call, form.models);
  await confirmRecently(call, password);
  if (call.config.requireVerifiedEmail && !user.emailVerified) {
    const message = "Please verify your e-mail address before you create an API key.";
    throw new ServiceError(Reason.EMAIL_NOT_VERIFIED, message);
  }
  return call.em.transactional(async () => {
    await lockCaller(call);
    const created = await insertKey(call, user.id, form);
    const { name, hint, expiresAt } = created.apiKey;
    const expires = expiresAt ? endOf(expiresAt) : "never";
    const variables = { key: name, hint, expires };
    if (user.emailVerified)
      await queueEmails(call, [user], "api-key-created", variables); // however many there have been: a thief could use up a limit first
    else await queueEmail(call, user, "api-key-created", variables);
    return created;
  });
}

/**
 * Inserts a key of a user, whose row is locked: of many callers at once none exceeds the limit.
 * @throws ServiceError VALIDATION_FAILED, CONFLICT
 */
export async function insertKey(
  call: SessionCall,
  userId: string,
  form: KeyForm,
): Promise<CreatedKey> {
  const now = call.clock.now();
  const expiresAt = expiryOf(call, form, now);
  const { apiKeysPerUser } = call.config;
  if ((await countActiveKeys(call, userId, now)) >= apiKeysPerUser) {
    const message = `There are already ${apiKeysPerUser} API keys, which is the maximum. Please revoke one first.`;
    throw new ServiceError(Reason.CONFLICT, message);
  }
  const { key, digest, hint } = createApiKey();
  const apiKey: ListedKey = {
    id: newId(now),
    name: form.name,
    hint,
    models: form.models.length > 0 ? [...new Set(form.models)] : null,
    requestsPerMinute: null,
    createdAt: now,
    expiresAt,
    lastUsedAt: null,
    lastUsedIp: null,
  };
  await call.em.insert(ApiKey, {
    ...apiKey,
    user: userId,
    digest: Buffer.from(digest, "hex"),
    createdBy: call.principal.user.id,
    revokedAt: null,
  });
  await recordAudit(call, "user.api_key_created", { userId, details: namesOf(apiKey) });
  return { apiKey, key };
}

/**
 * When a key expires: as requested, by default as late as possible; null for never.
 * @throws ServiceError VALIDATION_FAILED
 */
function expiryOf(
  { config }: Pick<Call, "config">,
  { expiresAt }: KeyForm,
  now: Date,
): Date | null {
  const { apiKeyMaxAgeMs } = config;
  const latest = apiKeyMaxAgeMs > 0 ? new Date(now.getTime() + apiKeyMaxAgeMs) : null;
  if (!expiresAt) return latest;
  const end = timestampDate(expiresAt);
  if (end <= now) throw invalid("expiresAt", "must be in the future");
  if (latest && end > latest)
    throw invalid("expiresAt", `must be at most ${apiKeyMaxAgeMs / DAY_MS} days from now`);
  return end;
}

const DAY_MS = 86_400_000;

/**
 * Checks that every model of a key is in the catalogue, by its public name or as `provider/model`,
 * or an alias.
 * @throws ServiceError VALIDATION_FAILED
 */
export function assertKnownModels({ ai }: Pick<Call, "ai">, models: readonly string[]): void {
  const known = new Set([
    ...ai.catalogue.aliases.map(({ name }) => name),
    ...ai.catalogue.providers.flatMap((provider) =>
      provider.models.flatMap(({ name }) => [name, `${provider.id}/${name}`]),
    ),
  ]);
  const unknown = [...models.entries()].filter(([, model]) => !known.has(model));
  if (unknown.length === 0) return;
  const message = "must be the public name of a model or alias, or provider/model";
  throw invalidFields(unknown.map(([i]) => ({ field: `models[${i}]`, message })));
}

/**
 * Revokes an API key of the caller.
 * @throws ServiceError NOT_FOUND, UNAUTHENTICATED
 */
export async function revokeOwnKey(call: SessionCall, keyId: string): Promise<void> {
  const { id: userId } = call.principal.user;
  await call.em.transactional(async () => {
    await lockCaller(call);
    const revoked = await revokeKey(call, canonicalId(keyId), userId);
    if (!revoked) throw keyNotFound();
    await recordRevokedKey(call, userId, revoked);
  });
}

/** The error for an id that no key, or no key of the caller, has. */
export const keyNotFound = () => new ServiceError(Reason.NOT_FOUND, "There is no such API key.");
