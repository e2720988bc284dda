import type { MessageInitShape } from "@bufbuild/protobuf";
import type { PasskeyOptionsSchema } from "../../gen/gatehouse/account/v1/passkey_pb.ts";
import type { Call } from "../call.ts";
import { beginCeremony, CEREMONY_MS, type CeremonyPurpose } from "../crypto/ceremony.ts";
import { bytesOfId } from "../platform/rpc/id-bytes.ts";
import { newId } from "../store/ids.ts";
import type { Passkey } from "../store/passkeys.ts";
import type { User } from "../store/users.ts";
import { relyingPartyOf } from "./relying-party.ts";

/** Options of a WebAuthn call, in WebAuthn's JSON form. */
export type PasskeyOptions = MessageInitShape<typeof PasskeyOptionsSchema>;

/** Accepted algorithms, preferred first: Ed25519, ECDSA with P-256, RSA (RFC 9053, RFC 8812). */
export const ALGORITHMS = [-8, -7, -257];

const PUBLIC_KEY = "public-key";

const descriptorOf = ({ credentialId, transports }: Passkey) => ({
  id: credentialId,
  type: PUBLIC_KEY,
  transports,
});

const challengeOf = ({ cipher, clock }: Call, purpose: CeremonyPurpose) =>
  beginCeremony(cipher, newId(clock.now()), purpose).toString("base64url");

/**
 * Options for using a passkey (WebAuthn level 3, section 5.5).
 * @param passkeys the allowed ones; if empty, any discoverable passkey
 * @throws ServiceError NOT_FOUND if passkeys are off
 */
export const requestOptions = (
  call: Call,
  purpose: CeremonyPurpose,
  passkeys: readonly Passkey[] = [],
): PasskeyOptions => ({
  challenge: challengeOf(call, purpose),
  timeout: CEREMONY_MS,
  rpId: relyingPartyOf(call.config).id,
  allowCredentials: passkeys.map(descriptorOf),
  userVerification: "required",
});

/**
 * Options for creating a passkey (WebAuthn level 3, section 5.4): discoverable, with user
 * verification. Attestation is not requested, because nothing depends on the make of an
 * authenticator.
 * @param passkeys the user's existing passkeys, whose authenticators refuse to create another one
 * @throws ServiceError NOT_FOUND if passkeys are off
 */
export const creationOptions = (
  call: Call,
  purpose: CeremonyPurpose,
  { id, email, name }: Pick<User, "id" | "email" | "name">,
  passkeys: readonly Passkey[],
): PasskeyOptions => ({
  rp: { id: relyingPartyOf(call.config).id, name: call.config.appName },
  user: { id: bytesOfId(id).toString("base64url"), name: email, displayName: name },
  challenge: challengeOf(call, purpose),
  pubKeyCredParams: ALGORITHMS.map((alg) => ({ alg, type: PUBLIC_KEY })),
  timeout: CEREMONY_MS,
  excludeCredentials: passkeys.map(descriptorOf),
  authenticatorSelection: {
    residentKey: "required",
    requireResidentKey: true,
    userVerification: "required",
  },
  attestation: "none",
});
