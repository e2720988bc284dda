import { emailTaken, readEmailAddress } from "../accounts/email-address.ts";
import { readLocale } from "../accounts/locale.ts";
import { assertMaySignUp } from "../accounts/sign-up.ts";
import { auditRow } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { circumstancesOf } from "../mail/circumstances.ts";
import { lifetimeOf } from "../mail/templates.ts";
import { newId } from "../store/ids.ts";
import { insertRegistration } from "../store/users.ts";

/**
 * Creates an account and queues the e-mail that verifies its address; both or neither.
 * @param password may be empty where codes by e-mail sign in: the account has none
 * @param language that the user has chosen, a BCP 47 tag
 * @param isFirst whether this is the first administrator, who need not be among those who may sign
 * up
 * @returns the new user's id
 * @throws ServiceError SIGN_UP_CLOSED, EMAIL_TAKEN, VALIDATION_FAILED, UNAVAILABLE
 */
export async function register(
  call: Call,
  email: string,
  password: string,
  name: string,
  language?: string,
  isFirst = false,
): Promise<string> {
  const address = readEmailAddress(email);
  if (!isFirst) assertMaySignUp(call.config, address);
  const locale = readLocale(language) ?? null;
  const hasPassword = password !== "";
  const passwordHash = hasPassword
    ? await call.passwords.hash(password, call.client.address)
    : call.passwords.noPassword;
  const { verifyTokenTtlMs } = call.config;
  const now = call.clock.now();
  const emails = { email: address.stored, canonicalEmail: address.canonical };
  const user = {
    id: newId(now),
    ...emails,
    name,
    locale,
    hasPassword,
    passwordHash,
    createdAt: now,
  };
  const isNew = await insertRegistration(call, {
    ...user,
    tokenId: newId(now),
    tokenExpiresAt: new Date(now.getTime() + verifyTokenTtlMs),
    mailId: newId(now),
    variables: {
      name: user.name,
      ...circumstancesOf(call, user.id),
      lifetime: lifetimeOf(verifyTokenTtlMs),
    },
    event: auditRow(call, "auth.register", { userId: user.id }),
  });
  if (!isNew) throw emailTaken();
  call.onComplete.push(() => call.mailWorker.wake());
  return user.id;
}
