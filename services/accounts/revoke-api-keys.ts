import { recordAudit } from "../audit/record.ts";
import type { SystemCall } from "../call.ts";
import { type NamedKey, revokeKeysOf } from "../store/api-keys.ts";

/** What the audit log keeps of a key. */
export const namesOf = ({ id, name, hint }: NamedKey) => ({ id, name, hint });

/** Records that a key was revoked, in addition to the change itself. */
export const recordRevokedKey = (call: SystemCall, userId: string, key: NamedKey): Promise<void> =>
  recordAudit(call, "user.api_key_revoked", { userId, details: namesOf(key) });

/**
 * Revokes all API keys of an account that may have been in other hands. Joins the caller's
 * transaction, which has locked the user.
 * @returns the keys that were active
 */
export async function revokeAllKeysOf(call: SystemCall, userId: string): Promise<NamedKey[]> {
  const revoked = await revokeKeysOf(call, userId);
  for (const key of revoked) await recordRevokedKey(call, userId, key);
  return revoked;
}
