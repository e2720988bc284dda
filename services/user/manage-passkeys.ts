import type { PasskeyCredential } from "../../gen/gatehouse/account/v1/passkey_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertRecentSignIn, lockCaller } from "../accounts/guards.ts";
import { assertFactorRemains, assertWayInRemains } from "../accounts/ways-in.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { queueEmail } from "../mail/queue.ts";
import { creationOptions, type PasskeyOptions, requestOptions } from "../passkeys/options.ts";
import { relyingPartyOf } from "../passkeys/relying-party.ts";
import { passkeyInvalid, verifyRegistration } from "../passkeys/verify-passkey.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { deviceOf } from "../sessions/device.ts";
import { completeCeremony } from "../store/ceremonies.ts";
import { canonicalId, newId } from "../store/ids.ts";
import {
  deletePasskey,
  insertPasskey,
  listPasskeys,
  type Passkey,
  renamePasskey,
} from "../store/passkeys.ts";

/** Maximum number of passkeys of a user. */
const MAX_PASSKEYS = 20;
/** Maximum length of a name, in characters. */
const MAX_NAME = 64;

/** The caller's passkeys, newest first. */
export const listOwnPasskeys = (call: SessionCall): Promise<Passkey[]> =>
  listPasskeys(call, call.principal.user.id, relyingPartyOf(call.config).id);

/**
 * Begins to make a passkey, or to confirm the session with one. A stolen session must not add a way
 * in, so that needs a recent sign-in or confirmation.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND where passkeys are off
 */
export async function createPasskeyOptions(
  call: SessionCall,
  purpose: "register" | "confirm",
): Promise<PasskeyOptions> {
  const { user, session } = call.principal;
  if (purpose === "register") assertRecentSignIn(call);
  const passkeys = await listOwnPasskeys(call);
  return purpose === "register"
    ? creationOptions(call, `passkey register ${session.id}`, user, passkeys)
    : requestOptions(call, `passkey confirm ${session.id}`, passkeys);
}

/**
 * Adds the passkey that an authenticator has made.
 * @param name by default that of the device
 * @throws ServiceError PASSKEY_INVALID, CONFLICT for one that exists or is too many, NOT_FOUND
 * where passkeys are off
 */
export async function createPasskey(
  call: SessionCall,
  credential: PasskeyCredential,
  name: string | undefined,
): Promise<Passkey> {
  const { user, session } = call.principal;
  const { ceremony, ...made } = await verifyRegistration(
    call,
    credential,
    `passkey register ${session.id}`,
  );
  const createdAt = call.clock.now();
  const passkey = {
    ...made,
    id: newId(createdAt),
    userId: user.id,
    name: name ?? deviceOf(call.client.agent).slice(0, MAX_NAME),
    createdAt,
    lastUsedAt: null,
  };
  await call.em.transactional(async () => {
    await lockCaller(call);
    if (!(await completeCeremony(call, ceremony))) throw passkeyInvalid();
    if ((await listOwnPasskeys(call)).length >= MAX_PASSKEYS)
      throw new ServiceError(
        Reason.CONFLICT,
        `An account can have at most ${MAX_PASSKEYS} passkeys. Please remove one first.`,
      );
    if (!(await insertPasskey(call, passkey)))
      throw new ServiceError(Reason.CONFLICT, "This passkey already exists.");
    const details = { passkeyId: passkey.id };
    await recordAudit(call, "user.passkey_added", { userId: user.id, details });
    await queueEmail(call, user, "passkey-added", { passkey: passkey.name });
  });
  return passkey;
}

/**
 * Renames a passkey of the caller.
 * @throws ServiceError NOT_FOUND
 */
export async function renameOwnPasskey(
  call: SessionCall,
  id: string,
  name: string,
): Promise<Passkey> {
  const renamed = await renamePasskey(call, { id, userId: call.principal.user.id, name });
  if (!renamed) throw passkeyNotFound();
  return renamed;
}

/**
 * Removes a passkey of the caller. Another way in must remain, and another second factor while one
 * is required.
 * @returns the credential ids of those that remain, for the browser
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, LAST_SIGN_IN_METHOD
 */
export async function removePasskey(call: SessionCall, passkeyId: string): Promise<string[]> {
  assertRecentSignIn(call);
  const { user } = call.principal;
  const id = canonicalId(passkeyId);
  return call.em.transactional(async () => {
    await lockCaller(call);
    const removed = await deletePasskey(call, { id, userId: user.id });
    if (!removed) throw passkeyNotFound();
    await assertWayInRemains(call, user.id);
    await assertFactorRemains(call, user.id);
    const details = { passkeyId: id };
    await recordAudit(call, "user.passkey_removed", { userId: user.id, details });
    await queueEmail(call, user, "passkey-removed", { passkey: removed.name });
    return (await listOwnPasskeys(call)).map(({ credentialId }) => credentialId);
  });
}

const passkeyNotFound = () => new ServiceError(Reason.NOT_FOUND, "There is no such passkey.");
