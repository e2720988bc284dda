import { emailTaken, readEmailAddress } from "../accounts/email-address.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { newId } from "../store/ids.ts";
import { User } from "../store/user.ts";
import { queueToken } from "./queue-token.ts";

/**
 * Makes an account and queues the proof of its address, both or neither.
 * @returns the new user's id.
 * @throws ServiceError EMAIL_TAKEN, VALIDATION_FAILED, UNAVAILABLE
 */
export async function register(call: Call, email: string, password: string, name: string): Promise<string> {
  const address = readEmailAddress(email);
  const passwordHash = await call.passwords.hash(password);
  const now = call.clock.now();
  const id = newId(now);
  const user = { id, email: address.stored, name: name.trim() };
  await call.em.transactional(async () => {
    const { affectedRows } = await call.em
      .createQueryBuilder(User)
      .insert({
        ...user,
        canonicalEmail: address.canonical,
        role: "user",
        passwordHash,
        passwordChangedAt: now,
        termsAcceptedAt: now,
        createdAt: now,
        updatedAt: now,
      })
      .onConflict("canonicalEmail")
      .ignore() // an error would have the database log the statement, hash and all
      .execute("run");
    if (affectedRows === 0) throw emailTaken();
    await queueToken(call, "verify-email", user);
    await recordAudit(call, "auth.register", { userId: id });
  });
  return id;
}
