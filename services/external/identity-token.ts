import { z } from "zod";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { type Ceremony, ceremonyOf, EXTERNAL_CEREMONY_MS } from "../crypto/ceremony.ts";
import { readDeviceToken } from "../crypto/device-token.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { newId } from "../store/ids.ts";
import { openSealed } from "./state.ts";

/** What a provider reports about the account that a person has signed in with. */
export type ExternalIdentity = {
  provider: string;
  issuer: string;
  subject: string;
  email: string | null;
  /**
   * Whether the address is proven to belong to the owner of the account, by the rules for this
   * provider.
   */
  isProven: boolean;
  name: string | undefined;
};

const CONTEXT = "identity";

const tokenSchema = z.strictObject({
  id: z.uuid(),
  device: z.uuid(),
  provider: z.string(),
  issuer: z.string(),
  subject: z.string(),
  email: z.string().nullable(),
  /** Whether the provider was asked to authenticate the user again. */
  isFresh: z.boolean(),
});

/** An identity that was proven on a device, and the ceremony that uses up the proof. */
export type ProvenIdentity = Omit<z.infer<typeof tokenSchema>, "id" | "device"> & {
  ceremony: Ceremony;
};

/** Seals an identity for one use within 10 minutes, on the device that proved it. */
export function sealIdentity(
  { cipher, clock }: Pick<Call, "cipher" | "clock">,
  { provider, issuer, subject, email }: ExternalIdentity,
  device: string,
  isFresh: boolean,
): string {
  const named = { provider, issuer, subject, email };
  const sealed = { id: newId(clock.now()), device, ...named, isFresh };
  return cipher.encrypt(JSON.stringify(sealed), CONTEXT);
}

/**
 * Opens a proof of an identity. Complete its ceremony in the transaction of its effect.
 * @param deviceToken device token of the caller
 * @throws ServiceError EXTERNAL_FAILED
 */
export function openIdentity(
  { cipher, clock }: Pick<Call, "cipher" | "clock">,
  token: string,
  deviceToken: string,
): ProvenIdentity {
  const opened = openSealed(cipher, token, CONTEXT, tokenSchema);
  if (!opened || readDeviceToken(cipher, deviceToken) !== opened.device) throw externalFailed();
  const { id, device: _, ...identity } = opened;
  const ceremony = ceremonyOf(id, clock.now(), EXTERNAL_CEREMONY_MS);
  if (!ceremony) throw externalFailed();
  return { ...identity, ceremony };
}

/** The error for an exchange with a provider that proves nothing. */
export const externalFailed = () =>
  new ServiceError(
    Reason.EXTERNAL_FAILED,
    "Signing in with this provider failed. Please start again in this browser.",
  );
