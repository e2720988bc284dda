import { bytesOfId } from "../platform/rpc/id-bytes.ts";
import type { Cipher } from "./cipher.ts";
import { openSealedId, sealId } from "./sealed-id.ts";

/** Lifetime of a ceremony with an authenticator, in ms. */
export const CEREMONY_MS = 5 * 60_000;
/**
 * Lifetime of a ceremony with a sign-in provider, in ms. People may have to sign in there first.
 */
export const EXTERNAL_CEREMONY_MS = 10 * 60_000;
/** Maximum difference between the clocks of replicas, in ms. */
const CLOCK_TOLERANCE_MS = 30_000;

/** The purpose of a ceremony. Its bytes are valid for no other purpose. */
export type CeremonyPurpose =
  | "passkey sign-in"
  | `passkey second-factor ${string}`
  | `passkey register ${string}`
  | `passkey confirm ${string}`;

/** A ceremony in progress that has not expired. */
export type Ceremony = { id: string; expiresAt: Date };

/**
 * Begins a ceremony. Nothing is stored until it is completed, so ceremonies of strangers take no
 * storage.
 * @param id UUIDv7, which contains the time
 * @returns its 32 bytes, used as the WebAuthn challenge
 */
export const beginCeremony = (cipher: Cipher, id: string, purpose: CeremonyPurpose): Buffer =>
  sealId(cipher, id, contextOf(purpose));

/**
 * Verifies the bytes of a ceremony.
 * @returns undefined if they were not created by us, are for another purpose, or have expired
 */
export function readCeremony(
  cipher: Cipher,
  bytes: Buffer,
  purpose: CeremonyPurpose,
  now: Date,
): Ceremony | undefined {
  const id = openSealedId(cipher, bytes, contextOf(purpose));
  return id === undefined ? undefined : ceremonyOf(id, now, CEREMONY_MS);
}

/**
 * The ceremony with an id that has been authenticated.
 * @returns undefined if it has expired
 */
export function ceremonyOf(id: string, now: Date, lifetimeMs: number): Ceremony | undefined {
  const begunAt = timeOf(id);
  const ageMs = now.getTime() - begunAt;
  if (ageMs < -CLOCK_TOLERANCE_MS || ageMs >= lifetimeMs) return undefined;
  return { id, expiresAt: new Date(begunAt + lifetimeMs + CLOCK_TOLERANCE_MS) };
}

const contextOf = (purpose: CeremonyPurpose) => `ceremony ${purpose}`;

/** The time in a UUIDv7, in ms since 1970 (RFC 9562 section 5.7). */
const timeOf = (id: string): number => bytesOfId(id).readUIntBE(0, 6);
