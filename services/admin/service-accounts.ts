import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertStillAdmin, confirmRecently, lockOwnSession } from "../accounts/guards.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import type { AdminUser } from "../store/admin-users.ts";
import { canonicalId, newId } from "../store/ids.ts";
import { lockUser, SERVICE_DOMAIN, User } from "../store/users.ts";
import {
  assertKnownModels,
  type CreatedKey,
  insertKey,
  type KeyForm,
} from "../user/own-api-keys.ts";
import { readAdminUser, userNotFound } from "./manage-user.ts";

/** No password has this hash. */
const NO_PASSWORD = "-";

/**
 * Creates a service account: a user that cannot sign in. It does not depend on the user who created
 * it.
 * @throws ServiceError FORBIDDEN
 */
export async function createServiceAccount(call: SessionCall, name: string): Promise<AdminUser> {
  const now = call.clock.now();
  const id = newId(now);
  const email = `${id}@${SERVICE_DOMAIN}`;
  return call.em.transactional(async () => {
    await assertStillAdmin(call);
    await call.em.insert(User, {
      id,
      email,
      canonicalEmail: email,
      name,
      isService: true,
      role: "user",
      passwordHash: NO_PASSWORD,
      passwordChangedAt: now,
      termsAcceptedAt: now,
      createdAt: now,
      updatedAt: now,
    });
    await recordAudit(call, "admin.service_account_created", { userId: id, details: { name } });
    return readAdminUser(call, id);
  });
}

/**
 * Creates an API key of a service account.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, INVALID_CURRENT_PASSWORD, ACCOUNT_LOCKED,
 * NOT_FOUND, CONFLICT, VALIDATION_FAILED, FORBIDDEN, UNAUTHENTICATED
 */
export async function createServiceKey(
  call: SessionCall,
  userId: string,
  form: KeyForm,
  password: string | undefined,
): Promise<CreatedKey> {
  const id = canonicalId(userId);
  assertKnownModels(call, form.models);
  await confirmRecently(call, password);
  return call.em.transactional(async () => {
    if (!(await lockUser(call, id))) throw userNotFound();
    await assertStillAdmin(call);
    await lockOwnSession(call);
    const user = await call.em.findOneOrFail(User, { id });
    if (!user.isService) {
      const message = "This user is not a service account. Users create their own API keys.";
      throw new ServiceError(Reason.CONFLICT, message);
    }
    return insertKey(call, id, form);
  });
}
