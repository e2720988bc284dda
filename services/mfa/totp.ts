import { generateSecret, generateURI, verify } from "otplib";
import type { Cipher } from "../crypto/cipher.ts";
import type { Clock } from "../platform/process.ts";

/** Tolerated difference of a device's clock, in seconds: one step (RFC 6238 section 5.2). */
const DRIFT_SECONDS = 30;

/**
 * Creates a secret of 160 bits for SHA-1, 6 digits and 30 seconds, which every authenticator supports.
 * @param issuer the name that an authenticator shows above the account.
 * @returns the secret as text and as a QR code (data URL) for the authenticator, and encrypted for storage
 */
export async function createTotpSecret(cipher: Cipher, issuer: string, user: { id: string; email: string }) {
  const secret = generateSecret();
  const uri = generateURI({ issuer, label: user.email, secret });
  const { toDataURL } = await import("qrcode"); // loaded on first use: it is large
  return { secret, qrCode: await toDataURL(uri), encryptedSecret: cipher.encrypt(secret, contextOf(user.id)) };
}

/**
 * Finds the time step of a code that is valid now or one step off. The caller makes sure that the step is unused.
 * @returns undefined for every other code.
 */
export async function matchingStep(
  { cipher, clock }: { cipher: Cipher; clock: Clock },
  user: { id: string; encryptedSecret: string },
  code: string,
): Promise<number | undefined> {
  if (!/^\d{6}$/.test(code)) return undefined; // the library throws for anything else
  const result = await verify({
    secret: cipher.decrypt(user.encryptedSecret, contextOf(user.id)),
    token: code,
    epoch: Math.floor(clock.now().getTime() / 1000),
    epochTolerance: DRIFT_SECONDS,
  });
  return result.valid && "timeStep" in result ? result.timeStep : undefined;
}

/** What binds an encrypted secret to its user. */
export const contextOf = (userId: string) => `totp ${userId}`;
