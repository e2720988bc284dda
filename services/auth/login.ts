import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit.ts";
import type { Call } from "../call.ts";
import { Refusal } from "../refusal.ts";
import { readEmailAddress } from "../security/email-address.ts";
import { openSession } from "../security/sessions.ts";
import type { TokenPair } from "../security/tokens.ts";
import { User } from "../store/user.ts";

/** What became of a login. */
export type LoginOutcome = { kind: "signed-in"; user: User; tokens: TokenPair; passwordExpired: boolean };

/**
 * Checks credentials and opens a session. The guess has been counted before it gets here (see the limit interceptor).
 * Unknown address and wrong password cost the same and read the same.
 * @throws Refusal INVALID_CREDENTIALS, EMAIL_NOT_VERIFIED, UNAVAILABLE
 */
export async function login(call: Call, email: string, password: string): Promise<LoginOutcome> {
  const address = readEmailAddress(email);
  const user = await call.em.findOne(User, { canonicalEmail: address.canonical });
  const matches = await call.passwords.matches(user?.passwordHash, password);
  if (!user || !matches) {
    await recordWrongGuess(call, user?.id);
    throw new Refusal(Reason.INVALID_CREDENTIALS, "Invalid e-mail or password.");
  }
  await call.attempt?.succeed();
  if (call.config.requireVerifiedEmail && !user.emailVerified) {
    throw new Refusal(Reason.EMAIL_NOT_VERIFIED, "Please confirm your e-mail address first, then sign in.");
  }
  if (call.passwords.isOutdated(user.passwordHash)) await rehash(call, user, password);
  const tokens = await call.em.transactional(async () => {
    await call.em.execute("update users set last_login_at = ? where id = ?", [call.clock.now(), user.id]);
    await recordAudit(call, "auth.login", { userId: user.id });
    return openSession(call, user);
  });
  return { kind: "signed-in", user, tokens, passwordExpired: isPasswordExpired(call, user) };
}

async function recordWrongGuess(call: Call, userId: string | undefined): Promise<void> {
  const locked = await call.attempt?.fail();
  await recordAudit(call, "auth.login_failed", { userId, outcome: "failure" });
  if (locked) await recordAudit(call, "auth.locked", { userId, outcome: "failure" });
}

async function rehash(call: Call, user: User, password: string): Promise<void> {
  const passwordHash = await call.passwords.hash(password);
  await call.em.execute("update users set password_hash = ? where id = ? and password_hash = ?", [
    passwordHash,
    user.id,
    user.passwordHash,
  ]);
}

function isPasswordExpired({ config, clock }: Call, user: User): boolean {
  return (
    config.passwordMaxAgeMs > 0 && clock.now().getTime() - user.passwordChangedAt.getTime() >= config.passwordMaxAgeMs
  );
}
