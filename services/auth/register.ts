import { recordAudit } from "../audit.ts";
import type { Call } from "../call.ts";
import { emailTakenOr, readEmailAddress } from "../security/email-address.ts";
import { newId } from "../store/ids.ts";
import { User } from "../store/user.ts";
import { queueToken } from "./queue-token.ts";

/**
 * Makes an account and queues the proof of its address, both or neither.
 * @returns the new user's id.
 * @throws Refusal EMAIL_TAKEN, VALIDATION_FAILED, UNAVAILABLE
 */
export async function register(call: Call, email: string, password: string, name: string): Promise<string> {
  const address = readEmailAddress(email);
  const passwordHash = await call.passwords.hash(password);
  const now = call.clock.now();
  const id = newId(now);
  try {
    await call.em.transactional(async () => {
      await call.em.insert(User, {
        id,
        email: address.stored,
        canonicalEmail: address.canonical,
        name: name.trim(),
        role: "user",
        passwordHash,
        passwordChangedAt: now,
        termsAcceptedAt: now,
        createdAt: now,
        updatedAt: now,
      });
      await queueToken(call, "verify-email", { id, email: address.stored, name: name.trim() });
      await recordAudit(call, "auth.register", { userId: id });
    });
  } catch (error) {
    throw emailTakenOr(error);
  }
  return id;
}
