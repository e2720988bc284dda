import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertRecentSignIn, lockCaller } from "../accounts/guards.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { externalFailed, openIdentity } from "../external/identity-token.ts";
import { queueEmail } from "../mail/queue.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { completeCeremony } from "../store/ceremonies.ts";
import {
  findIdentity,
  type Identity,
  insertIdentity,
  listIdentities,
} from "../store/identities.ts";
import { newId } from "../store/ids.ts";

/** Maximum number of identities of a user. */
const MAX_IDENTITIES = 20;

/**
 * Connects a proven identity to the caller's account. A stolen session must not add a way in, so
 * that needs a recent sign-in or confirmation.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, EXTERNAL_FAILED, IDENTITY_TAKEN, CONFLICT for one
 * that the caller has or that is too many, UNAUTHENTICATED
 */
export async function connectIdentity(
  call: SessionCall,
  token: string,
  deviceToken: string,
): Promise<Identity> {
  assertRecentSignIn(call);
  const { ceremony, isFresh: _, ...proven } = openIdentity(call, token, deviceToken);
  const { user } = call.principal;
  const createdAt = call.clock.now();
  const id = newId(createdAt);
  const identity = { id, userId: user.id, ...proven, createdAt, lastUsedAt: null };
  await call.em.transactional(async () => {
    await lockCaller(call);
    if (!(await completeCeremony(call, ceremony))) throw externalFailed();
    if ((await listIdentities(call, user.id)).length >= MAX_IDENTITIES)
      throw new ServiceError(
        Reason.CONFLICT,
        `An account can have at most ${MAX_IDENTITIES} connected provider accounts. Please disconnect one first.`,
      );
    if (!(await insertIdentity(call, identity))) throw await takenBy(call, identity);
    const details = { identityId: id, provider: proven.provider, how: "connect" };
    await recordAudit(call, "user.identity_added", { userId: user.id, details });
    const provider = call.external.providers.get(proven.provider)?.name ?? proven.provider;
    await queueEmail(call, user, "identity-added", { provider });
  });
  return identity;
}

/** The error for an identity that a user has, which may be the caller. */
async function takenBy(call: SessionCall, identity: Identity): Promise<ServiceError> {
  const other = await findIdentity(call, identity);
  return other?.userId === identity.userId
    ? new ServiceError(Reason.CONFLICT, "This provider account is already connected.")
    : new ServiceError(
        Reason.IDENTITY_TAKEN,
        "This provider account is connected to another account here. Please disconnect it there first.",
      );
}
