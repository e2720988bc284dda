import type { ConfirmRequest } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import type { PasskeyCredential } from "../../gen/gatehouse/account/v1/passkey_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { externalFailed, openIdentity } from "../external/identity-token.ts";
import { needsSecondFactor, withSecondFactor } from "../mfa/second-factor.ts";
import { passkeyInvalid, recordAssertion, verifyAssertion } from "../passkeys/verify-passkey.ts";
import { invalid, ServiceError } from "../platform/rpc/errors.ts";
import { completeCeremony } from "../store/ceremonies.ts";
import { findIdentity } from "../store/identities.ts";
import { confirmSession } from "../store/sessions.ts";
import { User } from "../store/users.ts";
import {
  accountGone,
  confirmPassword,
  lockCaller,
  RECENT_SIGN_IN_MS,
  wrongPassword,
} from "./guards.ts";

/**
 * What confirms a session: a passkey, or a password or identity together with a code if the account
 * has a second factor.
 */
type Proof = Pick<
  ConfirmRequest,
  "password" | "code" | "backupCode" | "passkey" | "identityToken" | "deviceToken"
>;

/**
 * Confirms the caller's session, which is then treated as if it had just begun. Remedies
 * REAUTHENTICATION_REQUIRED without a new sign-in.
 * @returns when the confirmation ends
 * @throws ServiceError INVALID_CURRENT_PASSWORD, INVALID_CODE, MFA_NOT_ENABLED, VALIDATION_FAILED,
 * PASSKEY_INVALID, PASSKEY_UNKNOWN, EXTERNAL_FAILED, ACCOUNT_LOCKED, UNAUTHENTICATED, UNAVAILABLE
 */
export async function confirm(call: SessionCall, proof: Proof): Promise<Date> {
  if (proof.passkey) await confirmByPasskey(call, proof.passkey);
  else if (proof.identityToken !== undefined)
    await confirmByIdentity(call, proof.identityToken, proof);
  else await confirmByPassword(call, proof);
  return new Date(call.clock.now().getTime() + RECENT_SIGN_IN_MS);
}

async function confirmByPasskey(call: SessionCall, credential: PasskeyCredential): Promise<void> {
  const { user, session } = call.principal;
  const assertion = await verifyAssertion(call, credential, `passkey confirm ${session.id}`);
  if (assertion.passkey.userId !== user.id) throw passkeyInvalid();
  await call.em.transactional(async () => {
    await lockCaller(call);
    await recordAssertion(call, assertion, user);
    await recordConfirmation(call, "passkey");
  });
}

async function confirmByPassword(call: SessionCall, proof: Proof): Promise<void> {
  const { user: caller } = call.principal;
  if (!caller.hasPassword) throw wrongPassword(); // not counted as a guess, since no password can be right
  assertFactorIsGiven(caller, proof);
  const user = await confirmPassword(call, proof.password ?? "");
  const record = () => recordConfirmation(call, "password");
  await confirmWithFactor(call, user, proof, record);
}

/**
 * The identity must belong to the caller, and its provider must have authenticated the caller
 * again.
 */
async function confirmByIdentity(call: SessionCall, token: string, proof: Proof): Promise<void> {
  const { id } = call.principal.user;
  const { ceremony, isFresh, ...key } = openIdentity(call, token, proof.deviceToken);
  const owner = (await findIdentity(call, key))?.userId;
  if (!isFresh || owner !== id) throw externalFailed();
  const user = await call.em.findOne(User, { id });
  if (!user) throw accountGone();
  assertFactorIsGiven(user, proof);
  await confirmWithFactor(call, user, proof, async () => {
    if (!(await completeCeremony(call, ceremony))) throw externalFailed();
    if (!(await findIdentity(call, key))) throw externalFailed(); // removed in the meantime
    await recordConfirmation(call, "external");
  });
}

/** Records a confirmation, after verifying the second factor if the account has one. */
async function confirmWithFactor(
  call: SessionCall,
  user: User,
  proof: Proof,
  record: () => Promise<void>,
): Promise<void> {
  const lock = () => lockCaller(call);
  if (needsSecondFactor(user)) return withSecondFactor(call, user, proof, lock, record);
  await call.em.transactional(async () => {
    await lock();
    await record();
  });
}

/** Checks that a request has a code if the account has a second factor, and none otherwise. */
function assertFactorIsGiven(
  user: Pick<User, "mfaEnabled" | "secondFactor">,
  { code, backupCode }: Proof,
): void {
  const isGiven = code !== undefined || backupCode !== undefined;
  if (isGiven === needsSecondFactor(user)) return;
  if (!isGiven) throw invalid("code", "is required unless backupCode is given");
  throw new ServiceError(Reason.MFA_NOT_ENABLED, "Two-factor authentication is not enabled.");
}

/** Records the confirmation of the caller's session, which is locked. */
async function recordConfirmation(
  call: SessionCall,
  method: "password" | "passkey" | "external",
): Promise<void> {
  const { user, session } = call.principal;
  await confirmSession(call, session.id);
  await recordAudit(call, "auth.confirmed", { userId: user.id, details: { method } });
}
