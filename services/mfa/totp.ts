import { generateSecret, generateURI, verify } from "otplib";
import { toDataURL } from "qrcode";
import type { Cipher } from "../crypto/cipher.ts";
import type { Clock } from "../platform/clock.ts";

/** How far a device's clock may be off, in seconds: one step either way (RFC 6238 section 5.2). */
const DRIFT_SECONDS = 30;

/** A TOTP secret: what the authenticator is given, as text and as picture, and what is stored. */
export type TotpSecret = { secret: string; qrCode: string; encryptedSecret: string };

/** Makes a secret of 160 bits: SHA-1, 6 digits, 30 seconds, which is what every authenticator takes. */
export async function createTotpSecret(
  cipher: Cipher,
  issuer: string,
  user: { id: string; email: string },
): Promise<TotpSecret> {
  const secret = generateSecret();
  const uri = generateURI({ issuer, label: user.email, secret });
  return { secret, qrCode: await toDataURL(uri), encryptedSecret: cipher.encrypt(secret, contextOf(user.id)) };
}

/**
 * The step of a code that is right now or one step off; whoever uses it up makes sure that none so late has been used.
 * @returns undefined for every other code.
 */
export async function matchingStep(
  { cipher, clock }: { cipher: Cipher; clock: Clock },
  user: { id: string; sealed: string },
  code: string,
): Promise<number | undefined> {
  if (!/^\d{6}$/.test(code)) return undefined; // the library throws at anything else
  const result = await verify({
    secret: cipher.decrypt(user.sealed, contextOf(user.id)),
    token: code,
    epoch: Math.floor(clock.now().getTime() / 1000),
    epochTolerance: DRIFT_SECONDS,
  });
  return result.valid && "timeStep" in result ? result.timeStep : undefined;
}

const contextOf = (userId: string) => `totp ${userId}`;
