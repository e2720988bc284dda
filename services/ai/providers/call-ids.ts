import { createHash, randomInt } from "node:crypto";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** Length of the random part of an id. Mistral takes ids of exactly this length. */
const RANDOM_CHARACTERS = 9;

/** An id of our own with a signature. */
const WITH_SIGNATURE = /^(call_[A-Za-z0-9]{9})\.([A-Za-z0-9_-]+)$/;

/**
 * Creates an id for a tool call whose provider sends none. Clients return only the id of a call, so
 * the id also carries the signature that Gemini wants back with it.
 * @param signature in base64
 */
export function createCallId(signature?: string): string {
  const random = Array.from({ length: RANDOM_CHARACTERS }, () => BASE62[randomInt(BASE62.length)]);
  const id = `call_${random.join("")}`;
  return signature ? `${id}.${Buffer.from(signature, "base64").toString("base64url")}` : id;
}

/**
 * Splits an id into the part that names the call and the signature, in base64. Ids of other
 * gateways and providers are left unchanged.
 */
export function readCallId(given: string): { id: string; signature?: string } {
  const [, id, signature] = WITH_SIGNATURE.exec(given) ?? [];
  if (id === undefined || signature === undefined) return { id: given };
  return { id, signature: Buffer.from(signature, "base64url").toString("base64") };
}

/**
 * An id that a provider accepts: the given one, or else the first characters of its SHA-256 in base
 * 62, so that a call and its result keep the same id.
 */
export const acceptedId = (id: string, accepted: RegExp, length: number): string =>
  accepted.test(id) ? id : base62(createHash("sha256").update(id).digest("hex")).slice(0, length);

function base62(hex: string): string {
  let number = BigInt(`0x${hex}`);
  let text = "";
  for (; number > 0n; number /= 62n) text = `${BASE62[Number(number % 62n)]}${text}`;
  return text;
}
