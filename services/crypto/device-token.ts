import type { Cipher } from "./cipher.ts";
import { openSealedId, sealId } from "./sealed-id.ts";

const CONTEXT = "device";

/**
 * The token of a browser or app: its id and a keyed digest, 43 characters. No JWT, which would keep
 * signing keys for as long as browsers keep the cookie.
 */
export const encodeDeviceToken = (cipher: Cipher, deviceId: string): string =>
  sealId(cipher, deviceId, CONTEXT).toString("base64url");

/**
 * The id in the token of a browser or app.
 * @returns undefined if the token is not ours
 */
export const readDeviceToken = (cipher: Cipher, token: string): string | undefined =>
  openSealedId(cipher, Buffer.from(token, "base64url"), CONTEXT);
