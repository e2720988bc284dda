import { emailTaken, readEmailAddress } from "../accounts/email-address.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { newId } from "../store/ids.ts";
import { insertUser } from "../store/users.ts";
import { queueToken } from "./mail-token.ts";

/**
 * Creates an account and queues the mail that verifies its address, both or neither.
 * @returns the new user's id.
 * @throws ServiceError EMAIL_TAKEN, VALIDATION_FAILED, UNAVAILABLE
 */
export async function register(call: Call, email: string, password: string, name: string): Promise<string> {
  const address = readEmailAddress(email);
  const passwordHash = await call.passwords.hash(password, call.client.address);
  const now = call.clock.now();
  const id = newId(now);
  const user = { id, email: address.stored, name: name.trim() };
  const times = { passwordChangedAt: now, termsAcceptedAt: now, createdAt: now, updatedAt: now };
  await call.em.transactional(async () => {
    const row = { ...user, canonicalEmail: address.canonical, passwordHash, ...times };
    if (!(await insertUser(call, row))) throw emailTaken();
    await queueToken(call, "verify-email", user);
    await recordAudit(call, "auth.register", { userId: id });
  });
  return id;
}
