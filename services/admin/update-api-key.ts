import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { UpdateApiKeyRequest } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertStillAdmin } from "../accounts/guards.ts";
import { namesOf } from "../accounts/revoke-api-keys.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { invalid, ServiceError } from "../platform/rpc/errors.ts";
import { type AdminKey, ApiKey, findAdminKey } from "../store/api-keys.ts";
import { canonicalId } from "../store/ids.ts";
import { lockUser } from "../store/users.ts";
import { assertKnownModels, keyNotFound } from "../user/own-api-keys.ts";

/** Changes of a key. Undefined fields, and an empty list of models, keep their values. */
type KeyChanges = Pick<
  UpdateApiKeyRequest,
  "models" | "requestsPerMinute" | "expiresAt" | "revoked"
>;

/**
 * Restricts or revokes a key.
 * @throws ServiceError NOT_FOUND, CONFLICT, VALIDATION_FAILED, FORBIDDEN
 */
export async function updateKey(
  call: SessionCall,
  keyId: string,
  changes: KeyChanges,
): Promise<AdminKey> {
  const id = canonicalId(keyId);
  assertKnownModels(call, changes.models);
  return call.em.transactional(async () => {
    const found = await findAdminKey(call, id);
    if (!found || !(await lockUser(call, found.userId))) throw keyNotFound();
    await assertStillAdmin(call);
    const key = await findAdminKey(call, id); // as of the lock
    if (!key) throw keyNotFound();
    if (key.revokedAt)
      throw new ServiceError(Reason.CONFLICT, "This API key has already been revoked.");
    const columns = changedColumns(key, changes, call.clock.now());
    const fields = Object.keys(changes).filter((field) => isGiven(changes, field));
    if (fields.length === 0) return key;
    await call.em.nativeUpdate(ApiKey, { id }, columns);
    const details = { ...namesOf(key), fields };
    await recordAudit(call, "admin.api_key_updated", { userId: key.userId, details });
    return { ...key, ...columns };
  });
}

function isGiven(changes: KeyChanges, field: string): boolean {
  const value = changes[field as keyof KeyChanges];
  return Array.isArray(value) ? value.length > 0 : value !== undefined;
}

/** @throws ServiceError VALIDATION_FAILED for a later end */
function changedColumns(
  key: AdminKey,
  { models, requestsPerMinute, expiresAt, revoked }: KeyChanges,
  now: Date,
) {
  const end = expiresAt ? timestampDate(expiresAt) : undefined;
  if (end && key.expiresAt && end > key.expiresAt)
    throw invalid("expiresAt", "must not be later than the present expiry");
  return {
    ...(models.length > 0 && { models: [...new Set(models)] }),
    ...(requestsPerMinute !== undefined && { requestsPerMinute }),
    ...(end && { expiresAt: end }),
    ...(revoked && { revokedAt: now }),
  };
}
