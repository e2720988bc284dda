import { idOfBytes } from "../platform/rpc/id-bytes.ts";
import type { Cipher } from "./cipher.ts";
import { openSealedId, sealId } from "./sealed-id.ts";

const CONTEXT = "device";

/**
 * The token of a browser or app: its id and a keyed digest, 43 characters. Not a JWT, since signing
 * keys would then have to be kept for as long as browsers keep the cookie.
 */
export const encodeDeviceToken = (cipher: Cipher, deviceId: string): string =>
  sealId(cipher, deviceId, CONTEXT).toString("base64url");

/**
 * Reads the id in the token of a browser or app.
 * @param tokens one or, separated by spaces, several, because other sites may set cookies with the
 * same name
 * @returns undefined unless exactly one of them was created by us
 */
export function readDeviceToken(cipher: Cipher, tokens: string): string | undefined {
  const opened = tokens
    .split(" ")
    .map((token) => openSealedId(cipher, Buffer.from(token, "base64url"), CONTEXT));
  const [id, ...others] = opened.filter((each) => each !== undefined);
  return others.length === 0 ? id : undefined;
}

const IMPLIED_CONTEXT = "implied device";

/**
 * The id of a browser or app that sends no token, derived from its visible properties. All devices
 * of that kind in the network have the same id, so nothing may be allowed because of it.
 * @param label kind of the device, such as "Chrome on Windows"
 * @param network network of its address
 */
export function impliedDeviceId(
  cipher: Cipher,
  userId: string,
  label: string,
  network: string,
): string {
  const bytes = cipher.mac([userId, network, label].join(" "), IMPLIED_CONTEXT);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80; // version 8 and its variant (RFC 9562 section 5.8)
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return idOfBytes(bytes);
}
