import { randomBytes } from "node:crypto";
import { z } from "zod";
import { type Ceremony, ceremonyOf, EXTERNAL_CEREMONY_MS } from "../crypto/ceremony.ts";
import type { Cipher } from "../crypto/cipher.ts";

/** The purpose of an exchange with a provider: a sign-in, or the proof of an identity. */
export type ExternalPurpose = "sign-in" | "prove";

/**
 * An exchange in progress. It is sealed and passed through browser and provider, so that exchanges
 * of strangers are not stored.
 */
export type ExternalState = z.infer<typeof stateSchema>;

const CONTEXT = "provider";
/** 256 bits, as RFC 7636 section 7.1 recommends. */
const RANDOM_BYTES = 32;

const stateSchema = z.strictObject({
  id: z.uuid(),
  provider: z.string(),
  /** The secret of PKCE (RFC 7636). */
  verifier: z.string(),
  nonce: z.string(),
  /** The browser or app that may finish the exchange. */
  device: z.uuid(),
  purpose: z.enum(["sign-in", "prove"]),
  /** Index of the page in the list of those that may receive the response. */
  page: z.int(),
  acceptTerms: z.boolean(),
});

/** A secret for one exchange. */
export const randomSecret = (): string => randomBytes(RANDOM_BYTES).toString("base64url");

/**
 * Seals an exchange. The index of its page precedes the sealed text in clear, because the gateway,
 * which has no key, uses it to forward the response.
 */
export const sealState = (cipher: Cipher, state: ExternalState): string =>
  `${state.page}.${cipher.encrypt(JSON.stringify(state), CONTEXT)}`;

/**
 * Opens a sealed exchange.
 * @returns undefined if it was not sealed by us, has expired, or begins with another index
 */
export function openState(
  cipher: Cipher,
  text: string,
  now: Date,
): { state: ExternalState; ceremony: Ceremony } | undefined {
  const [, page = "", sealed = ""] = /^(\d{1,3})\.(.+)$/s.exec(text) ?? [];
  const state = openSealed(cipher, sealed, CONTEXT, stateSchema);
  const ceremony = state && ceremonyOf(state.id, now, EXTERNAL_CEREMONY_MS);
  return state && ceremony && String(state.page) === page ? { state, ceremony } : undefined;
}

/**
 * Opens sealed JSON.
 * @returns undefined if it was not sealed with one of our keys for this context, or was changed in
 * any character
 */
export function openSealed<T>(
  cipher: Cipher,
  sealed: string,
  context: string,
  schema: z.ZodType<T>,
): T | undefined {
  const text = sealed.slice(sealed.indexOf(".") + 1);
  if (Buffer.from(text, "base64url").toString("base64url") !== text) return undefined; // otherwise the unused last bits of the text could be changed
  try {
    return schema.parse(JSON.parse(cipher.decrypt(sealed, context)));
  } catch {
    return undefined;
  }
}
