import { recordAudit } from "../audit/record.ts";
import type { SystemCall } from "../call.ts";
import { type NamedKey, revokeKeysOf } from "../store/api-keys.ts";

/** The properties of a key that the audit log records. */
export const namesOf = ({ id, name, hint }: NamedKey) => ({ id, name, hint });

/** Records in the audit log that a key was revoked. */
export const recordRevokedKey = (call: SystemCall, userId: string, key: NamedKey): Promise<void> =>
  recordAudit(call, "user.api_key_revoked", { userId, details: namesOf(key) });

/**
 * Revokes all API keys of an account that others may have had access to. Joins the caller's
 * transaction, which has locked the user.
 * @returns the keys that were active
 */
export async function revokeAllKeysOf(call: SystemCall, userId: string): Promise<NamedKey[]> {
  const revoked = await revokeKeysOf(call, userId);
  for (const key of revoked) await recordRevokedKey(call, userId, key);
  return revoked;
}
