import type { AuthenticationResponseJSON, RegistrationResponseJSON } from "@simplewebauthn/server";
import type { PasskeyCredential } from "../../gen/gatehouse/account/v1/passkey_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { type Ceremony, type CeremonyPurpose, readCeremony } from "../crypto/ceremony.ts";
import { queueDailyEmail } from "../mail/queue.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { bytesOfId } from "../platform/rpc/id-bytes.ts";
import { completeCeremony } from "../store/ceremonies.ts";
import { findPasskey, type Passkey, usePasskey } from "../store/passkeys.ts";
import type { User } from "../store/users.ts";
import { ALGORITHMS } from "./options.ts";
import { type RelyingParty, relyingPartyOf } from "./relying-party.ts";

/** A verified use of a passkey that has not been recorded yet. */
export type Assertion = {
  passkey: Passkey;
  ceremony: Ceremony;
  signCount: number;
  backedUp: boolean;
};

/** A new passkey, as the authenticator describes it. */
export type NewCredential = Pick<
  Passkey,
  | "credentialId"
  | "publicKey"
  | "algorithm"
  | "signCount"
  | "transports"
  | "backupEligible"
  | "backedUp"
  | "aaguid"
  | "rpId"
> & { ceremony: Ceremony };

/**
 * Maximum length of a credential id, in bytes (WebAuthn level 3, section 7.1, step 25). Much longer
 * ones do not fit in an index.
 */
const MAX_CREDENTIAL_ID = 1_023;

/**
 * Verifies the use of a passkey (WebAuthn level 3, section 7.2). User verification is required, so
 * a passkey counts as two factors. A falling counter is not an error, because the counter of moved
 * and synced passkeys falls back to 0.
 * @throws ServiceError PASSKEY_UNKNOWN, PASSKEY_INVALID, NOT_FOUND if passkeys are off
 */
export async function verifyAssertion(
  call: Call,
  credential: PasskeyCredential,
  purpose: CeremonyPurpose,
): Promise<Assertion> {
  const party = relyingPartyOf(call.config);
  const { ceremony, ...expected } = expectations(call, party, credential, purpose);
  const passkey = await findPasskey(call, credential.id, party.id);
  if (!passkey) throw passkeyUnknown();
  const { credentialId: id, publicKey } = passkey;
  assertOwner(credential, passkey, purpose);
  const library = await loadLibrary();
  const { verified, authenticationInfo } = await library
    .verifyAuthenticationResponse({
      ...expected,
      response: toJson(credential) as AuthenticationResponseJSON,
      requireUserVerification: true,
      credential: { id, publicKey: bytesOf(publicKey), counter: 0 },
    })
    .catch(refuse);
  if (!verified) throw passkeyInvalid();
  const { newCounter: signCount, credentialBackedUp: backedUp } = authenticationInfo;
  if (isBackupEligible(authenticationInfo) !== passkey.backupEligible) throw passkeyInvalid(); // it never changes
  return { passkey, ceremony, signCount, backedUp };
}

/**
 * Verifies a new passkey (WebAuthn level 3, section 7.1).
 * @throws ServiceError PASSKEY_INVALID, NOT_FOUND if passkeys are off
 */
export async function verifyRegistration(
  call: Call,
  credential: PasskeyCredential,
  purpose: CeremonyPurpose,
): Promise<NewCredential> {
  const party = relyingPartyOf(call.config);
  const library = await loadLibrary();
  const { ceremony, ...expected } = expectations(call, party, credential, purpose);
  await assertPlainAttestation(credential).catch(refuse);
  const { registrationInfo } = await library
    .verifyRegistrationResponse({
      ...expected,
      response: toJson(credential) as RegistrationResponseJSON,
      requireUserVerification: true,
      supportedAlgorithmIDs: ALGORITHMS,
    })
    .catch(refuse);
  if (!registrationInfo) throw passkeyInvalid();
  const { credential: made, credentialBackedUp, aaguid } = registrationInfo;
  if (bytesOf(made.id).length > MAX_CREDENTIAL_ID) throw passkeyInvalid();
  return {
    ceremony,
    credentialId: made.id,
    publicKey: Buffer.from(made.publicKey).toString("base64url"),
    algorithm: await algorithmOf(made.publicKey).catch(refuse),
    signCount: made.counter,
    transports: credential.response?.transports ?? [],
    backupEligible: isBackupEligible(registrationInfo),
    backedUp: credentialBackedUp,
    aaguid,
    rpId: party.id,
  };
}

/**
 * Completes the ceremony of an assertion and records the use of its passkey. Joins the transaction
 * of its effect, which has locked the owner. A falling counter is recorded, and the owner is
 * notified at most once a day.
 * @throws ServiceError PASSKEY_INVALID if the assertion was used before, PASSKEY_UNKNOWN if the
 * passkey was removed in the meantime
 */
export async function recordAssertion(
  call: Call,
  { passkey, ceremony, signCount, backedUp }: Assertion,
  owner: Pick<User, "id" | "email" | "name">,
): Promise<void> {
  if (!(await completeCeremony(call, ceremony))) throw passkeyInvalid();
  const now = call.clock.now();
  if (!(await usePasskey(call, { id: passkey.id, signCount, backedUp, now })))
    throw passkeyUnknown();
  if (signCount >= passkey.signCount) return;
  const details = { passkeyId: passkey.id, from: passkey.signCount, to: signCount };
  await recordAudit(call, "auth.passkey_counter_fell", { userId: owner.id, details });
  await queueDailyEmail(call, owner, "passkey-counter", { passkey: passkey.name });
}

/** Whether a passkey may be synced to other devices. */
const isBackupEligible = ({ credentialDeviceType }: { credentialDeviceType: string }): boolean =>
  credentialDeviceType === "multiDevice";

/** The WebAuthn library, loaded on first use because it is large. */
const loadLibrary = () => import("@simplewebauthn/server");

const bytesOf = (base64url: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(Buffer.from(base64url, "base64url"));

/**
 * The values that a response must contain. Its challenge must be a ceremony for this purpose.
 * @throws ServiceError PASSKEY_INVALID
 */
function expectations(
  { cipher, clock }: Call,
  party: RelyingParty,
  { response }: PasskeyCredential,
  purpose: CeremonyPurpose,
) {
  const { challenge, crossOrigin = false } = readClientData(response?.clientDataJson ?? "");
  if (crossOrigin !== false) throw passkeyInvalid(); // the library rejects it only together with the top origin, which Safari omits
  if (typeof challenge !== "string") throw passkeyInvalid();
  const bytes = Buffer.from(challenge, "base64url");
  const ceremony = readCeremony(cipher, bytes, purpose, clock.now());
  if (!ceremony) throw passkeyInvalid();
  const expectedChallenge = bytes.toString("base64url");
  const expectedOrigin = [...party.origins];
  return { ceremony, expectedChallenge, expectedOrigin, expectedRPID: party.id };
}

/** @throws ServiceError PASSKEY_INVALID if it is not a JSON object */
function readClientData(text: string): { challenge?: unknown; crossOrigin?: unknown } {
  try {
    return { ...JSON.parse(Buffer.from(text, "base64url").toString()) };
  } catch {
    throw passkeyInvalid();
  }
}

/**
 * Checks that the user handle is the owner's id. It may be absent if the account was known
 * beforehand (WebAuthn level 3, section 7.2, step 6).
 * @throws ServiceError PASSKEY_INVALID
 */
function assertOwner(
  { response }: PasskeyCredential,
  { userId }: Passkey,
  purpose: CeremonyPurpose,
): void {
  const handle = response?.userHandle;
  if (handle === undefined && purpose !== "passkey sign-in") return;
  if (handle !== bytesOfId(userId).toString("base64url")) throw passkeyInvalid();
}

/**
 * Checks that an attestation contains no certificates. They were not requested, and to verify them,
 * the library would fetch revocation lists from URLs in them.
 */
async function assertPlainAttestation({ response }: PasskeyCredential): Promise<void> {
  const { decodeAttestationObject } = await import("@simplewebauthn/server/helpers");
  const attestation = decodeAttestationObject(bytesOf(response?.attestationObject ?? ""));
  const [format, statement] = [attestation.get("fmt"), attestation.get("attStmt")];
  const isNone = format === "none" && statement instanceof Map && statement.size === 0;
  const isSelf = format === "packed" && statement.get("x5c") === undefined;
  if (!isNone && !isSelf) throw passkeyInvalid();
}

/** Type and curve of the keys of each algorithm (RFC 9053 section 7.1; RFC 8230 section 4). */
const KEY_TYPES: Record<number, { type: number; curve?: number }> = {
  [-8]: { type: 1, curve: 6 },
  [-7]: { type: 2, curve: 1 },
  [-257]: { type: 3 },
};
/** A signature in DER that is wrong for every key. */
const WRONG_SIGNATURE = Uint8Array.of(0x30, 6, 2, 1, 1, 2, 1, 1);

/**
 * The algorithm of a new public key. The key must be of its type (WebAuthn level 3, section 5.8.5)
 * and be able to verify signatures. Without an attestation nothing else has used it, and a passkey
 * that never signs in would count as a way in.
 */
async function algorithmOf(credentialPublicKey: Uint8Array<ArrayBuffer>): Promise<number> {
  const library = await import("@simplewebauthn/server/helpers");
  const decoded: unknown = library.decodeCredentialPublicKey(credentialPublicKey);
  const key = decoded as ReadonlyMap<number, unknown>;
  const { alg, kty, crv } = library.cose.COSEKEYS;
  const algorithm = key.get(alg) as number;
  const { type, curve } = KEY_TYPES[algorithm] ?? {};
  const isOfItsType = key.get(kty) === type && (curve === undefined || key.get(crv) === curve);
  if (!isOfItsType) throw passkeyInvalid();
  const signed = { signature: WRONG_SIGNATURE, data: WRONG_SIGNATURE };
  await library.verifySignature({ credentialPublicKey, ...signed }); // throws if it can't be used
  return algorithm;
}

/** The credential in WebAuthn's JSON form. Absent members stay absent. */
function toJson({ id, rawId, type, response }: PasskeyCredential) {
  const { clientDataJson: clientDataJSON, ...others } = response ?? {};
  return { id, rawId, type, clientExtensionResults: {}, response: { clientDataJSON, ...others } };
}

/** Maps any error of a verification. */
function refuse(error: unknown): never {
  throw error instanceof ServiceError ? error : passkeyInvalid();
}

/** The error for an invalid use or registration of a passkey. */
export const passkeyInvalid = () =>
  new ServiceError(Reason.PASSKEY_INVALID, "The passkey was not accepted. Please try again.");

/** The error for a passkey that belongs to no account. */
export const passkeyUnknown = () =>
  new ServiceError(
    Reason.PASSKEY_UNKNOWN,
    "This passkey is not known here. It may have been removed from your account.",
  );
