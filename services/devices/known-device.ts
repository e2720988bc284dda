import type { Call } from "../call.ts";
import { readDeviceToken } from "../crypto/device-token.ts";
import { type AttemptKey, deviceSubject } from "../store/attempts.ts";
import { findOwnerOfDevice } from "../store/devices.ts";

/**
 * The counter for guesses on a device that has signed in to an account before, for while the
 * account is locked: strangers who hold the lock do not shut its owner out. Only the token counts,
 * not what a device looks like.
 * @returns undefined for every other device, and unless the configuration exempts known devices
 */
export async function guessesOfDevice(
  call: Call,
  canonicalEmail: string,
  deviceToken: string,
): Promise<AttemptKey | undefined> {
  if (call.config.lockoutKnownDevices !== "exempt") return undefined;
  const deviceId = readDeviceToken(call.cipher, deviceToken);
  if (deviceId === undefined) return undefined;
  const userId = await findOwnerOfDevice(call, canonicalEmail, deviceId);
  return userId ? { kind: "device", subject: deviceSubject(userId, deviceId) } : undefined;
}
