import type { PasskeyCredential } from "../../gen/gatehouse/account/v1/passkey_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import type { CeremonyPurpose } from "../crypto/ceremony.ts";
import { type PasskeyOptions, requestOptions } from "../passkeys/options.ts";
import { relyingPartyOf } from "../passkeys/relying-party.ts";
import {
  type Assertion,
  passkeyInvalid,
  passkeyUnknown,
  recordAssertion,
  verifyAssertion,
} from "../passkeys/verify-passkey.ts";
import { type LoginResult, openSession } from "../sessions/open-session.ts";
import { readMfaToken } from "../sessions/tokens.ts";
import { consumeSignIn } from "../store/one-time-tokens.ts";
import { listPasskeys } from "../store/passkeys.ts";
import type { SignInMethod } from "../store/sessions.ts";
import { lockUser, User } from "../store/users.ts";
import { assertNotSuspended, assertVerifiedAddress, invalidMfaToken } from "./login.ts";

/** The MFA token of a login that waits for its second factor. */
type Pending = NonNullable<Awaited<ReturnType<typeof readMfaToken>>>;

const purposeOf = (pending: Pending | undefined): CeremonyPurpose =>
  pending ? `passkey second-factor ${pending.id}` : "passkey sign-in";

/** @throws ServiceError TICKET_INVALID */
async function readPending(
  call: Call,
  tempToken: string | undefined,
): Promise<Pending | undefined> {
  if (tempToken === undefined) return undefined;
  const pending = await readMfaToken(call, tempToken);
  if (!pending) throw invalidMfaToken();
  return pending;
}

/**
 * Begins a sign-in by passkey, or a second step. Nothing is stored.
 * @param tempToken the MFA token of a second step, for which only passkeys of its account count
 * @throws ServiceError TICKET_INVALID, NOT_FOUND where passkeys are off
 */
export async function startPasskey(
  call: Call,
  tempToken: string | undefined,
): Promise<PasskeyOptions> {
  const pending = await readPending(call, tempToken);
  const { id: rpId } = relyingPartyOf(call.config);
  const passkeys = pending && (await listPasskeys(call, pending.userId, rpId));
  return requestOptions(call, purposeOf(pending), passkeys);
}

/**
 * Signs in with a passkey, or completes a login with it as the second factor. Ceremony, MFA token,
 * use of the passkey and session are one transaction. No attempts are counted, and a locked
 * password does not matter: a passkey can't be guessed.
 * @throws ServiceError PASSKEY_INVALID, PASSKEY_UNKNOWN, TICKET_INVALID, ACCOUNT_SUSPENDED,
 * EMAIL_NOT_VERIFIED, NOT_FOUND where passkeys are off
 */
export async function verifyPasskey(
  call: Call,
  credential: PasskeyCredential,
  tempToken: string | undefined,
  deviceToken: string,
): Promise<LoginResult> {
  const pending = await readPending(call, tempToken);
  const assertion = await verifyAssertion(call, credential, purposeOf(pending));
  const { userId } = assertion.passkey;
  if (pending && pending.userId !== userId) throw passkeyInvalid();
  const user = await call.em.findOne(User, { id: userId });
  if (!user || user.isDeletionDue(call.clock.now())) throw passkeyUnknown();
  await assertNotSuspended(call, user);
  await assertVerifiedAddress(call, user);
  return call.em.transactional(() => openWithPasskey(call, user, assertion, pending, deviceToken));
}

async function openWithPasskey(
  call: Call,
  user: User,
  assertion: Assertion,
  pending: Pending | undefined,
  deviceToken: string,
): Promise<LoginResult> {
  await lockUser(call, user.id);
  await recordAssertion(call, assertion, user);
  if (pending && !(await consumeSignIn(call, pending.id, call.clock.now())))
    throw invalidMfaToken();
  const methods: SignInMethod[] = pending ? [pending.method, "passkey"] : ["passkey"];
  const result = await openSession(call, user, methods, deviceToken);
  if (!result) throw pending ? invalidMfaToken() : passkeyInvalid(); // the account has changed since it was read
  const details = { method: "passkey" };
  if (pending) await recordAudit(call, "auth.mfa_verified", { userId: user.id, details });
  return result;
}
