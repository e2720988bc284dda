import type { UpdateProfileRequest } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { readEmailAddress } from "../accounts/email-address.ts";
import {
  accountGone,
  assertOtherAdmin,
  assertRecentSignIn,
  confirmPassword,
  isRecentSignIn,
  lockCaller,
  wrongPassword,
} from "../accounts/guards.ts";
import { readLocale } from "../accounts/locale.ts";
import { assertNotGuessable } from "../accounts/password-rules.ts";
import { voidPassword } from "../accounts/reset-access.ts";
import { assertWayInRemains } from "../accounts/ways-in.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { queueDailyEmail, queueEmail, queueEmails } from "../mail/queue.ts";
import { lifetimeOf } from "../mail/templates.ts";
import { invalid, ServiceError } from "../platform/rpc/errors.ts";
import { passwordForm } from "../platform/rpc/typed-text.ts";
import { countActiveKeys } from "../store/api-keys.ts";
import { recentEmails } from "../store/emails.ts";
import {
  invalidateOneTimeTokens,
  invalidateTokensOfSession,
  issueOneTimeToken,
  type OneTimeTokenKind,
} from "../store/one-time-tokens.ts";
import { findDeviceOf, revokeSessions } from "../store/sessions.ts";
import { User } from "../store/users.ts";

/**
 * Changes the caller's name, bio and language. Undefined fields keep their values.
 * @throws ServiceError VALIDATION_FAILED, UNAUTHENTICATED
 */
export async function updateProfile(
  call: SessionCall,
  changes: Pick<UpdateProfileRequest, "name" | "bio" | "locale">,
) {
  const { id } = call.principal.user;
  const { name, bio } = changes;
  const locale = readLocale(changes.locale);
  if (name === undefined && bio === undefined && locale === undefined)
    return editableOf(call.principal.user);
  return call.em.transactional(async () => {
    const user = await call.em.findOne(User, { id });
    if (!user) throw accountGone();
    user.name = name ?? user.name;
    user.bio = bio ?? user.bio ?? null;
    user.locale = locale ?? user.locale ?? null;
    user.updatedAt = call.clock.now();
    await call.em.flush();
    await recordAudit(call, "user.profile_updated", { userId: id });
    return editableOf(user);
  });
}

/** What an owner can change of an account without further conditions. */
const editableOf = ({ id, name, bio, locale }: Pick<User, "id" | "name" | "bio" | "locale">) => ({
  id,
  name,
  bio: bio ?? "",
  ...(locale && { locale }),
});

/** What a change of the password makes void. */
const PASSWORD_TOKENS: OneTimeTokenKind[] = [
  "reset-password",
  "invitation",
  "change-email",
  "sign-in",
];

/**
 * Sets a new password and ends all other sessions. API keys remain valid. Only one of several
 * concurrent changes succeeds.
 * @returns the number of API keys
 * @throws ServiceError INVALID_CURRENT_PASSWORD, REAUTHENTICATION_REQUIRED, VALIDATION_FAILED,
 * ACCOUNT_LOCKED, UNAVAILABLE
 */
export async function changePassword(
  call: SessionCall,
  currentPassword: string,
  newPassword: string,
): Promise<number> {
  const user = await confirmPassword(call, currentPassword);
  if (newPassword === passwordForm(currentPassword))
    throw invalid("newPassword", "must differ from the current password");
  assertNotGuessable(call, newPassword, user, "newPassword");
  const passwordHash = await call.passwords.hash(newPassword, call.client.address);
  return call.em.transactional(async () => {
    await lockCaller(call);
    const now = call.clock.now();
    const { id, passwordChangedAt } = user;
    const changes = { passwordHash, hasPassword: true, passwordChangedAt: now, updatedAt: now };
    const changed = await call.em.nativeUpdate(User, { id, passwordChangedAt }, changes);
    if (changed === 0) throw wrongPassword(); // changed by a concurrent request
    await revokeSessions(call, user.id, call.principal.session.id);
    await invalidateTokensOfSession(call, user.id, PASSWORD_TOKENS);
    await recordAudit(call, "user.password_changed", { userId: user.id });
    await queueEmail(call, user, "password-changed");
    return countActiveKeys(call, user.id, now);
  });
}

/**
 * Sets the first password of an account that has none.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, CONFLICT if there is one, VALIDATION_FAILED,
 * UNAVAILABLE
 */
export async function setPassword(call: SessionCall, newPassword: string): Promise<void> {
  assertRecentSignIn(call);
  const { user } = call.principal;
  if (user.hasPassword) throw hasPassword();
  assertNotGuessable(call, newPassword, user, "newPassword");
  const passwordHash = await call.passwords.hash(newPassword, call.client.address);
  await call.em.transactional(async () => {
    await lockCaller(call);
    const now = call.clock.now();
    const changes = { passwordHash, hasPassword: true, passwordChangedAt: now, updatedAt: now };
    const isWithout = { id: user.id, hasPassword: false };
    if ((await call.em.nativeUpdate(User, isWithout, changes)) === 0) throw hasPassword();
    await invalidateTokensOfSession(call, user.id, PASSWORD_TOKENS);
    await recordAudit(call, "user.password_set", { userId: user.id });
    await queueEmail(call, user, "password-set");
  });
}

const hasPassword = () =>
  new ServiceError(Reason.CONFLICT, "This account has a password. Please change it instead.");

/**
 * Removes the password of an account that has another way in, and ends every other session.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, CONFLICT if there is none, LAST_SIGN_IN_METHOD
 */
export async function removePassword(call: SessionCall): Promise<void> {
  assertRecentSignIn(call);
  const { user, session } = call.principal;
  await call.em.transactional(async () => {
    await lockCaller(call);
    if ((await call.em.count(User, { id: user.id, hasPassword: true })) === 0)
      throw new ServiceError(Reason.CONFLICT, "This account has no password.");
    await voidPassword(call, user.id);
    await assertWayInRemains(call, user.id);
    await revokeSessions(call, user.id, session.id);
    await invalidateTokensOfSession(call, user.id, PASSWORD_TOKENS);
    await recordAudit(call, "user.password_removed", { userId: user.id });
    await queueEmail(call, user, "password-removed");
  });
}

/**
 * Maximum number of requests per user and hour, also without rate limits: each sends an e-mail to
 * an address of the user's choice.
 */
const MAX_PER_HOUR = 3;
const HOUR_MS = 3_600_000;

/**
 * Mails a verification token to the new address and a notice to the old one. The change takes
 * effect once the new address is verified, even if it is only a different spelling of the same
 * address. The response does not reveal whether the address belongs to another account: its owner
 * is notified instead.
 * @throws ServiceError INVALID_CURRENT_PASSWORD, VALIDATION_FAILED, ACCOUNT_LOCKED, RATE_LIMITED,
 * UNAVAILABLE
 */
export async function changeEmail(
  call: SessionCall,
  newEmail: string,
  password: string,
): Promise<void> {
  const address = readEmailAddress(newEmail, "newEmail");
  const user = await confirmPassword(call, password);
  if (address.stored === user.email)
    throw invalid("newEmail", "must differ from the current address");
  await call.em.transactional(async () => {
    await lockCaller(call);
    await limitRequests(call);
    const lifetime = lifetimeOf(call.config.verifyTokenTtlMs);
    const variables = { newEmail: address.stored, lifetime };
    // `limitRequests` counts these e-mails: none may be left out
    await queueEmails(call, [user], "email-change-requested", variables);
    await invalidateOneTimeTokens(call, user.id, ["change-email"]);
    const owner = await call.em.findOne(User, { canonicalEmail: address.canonical });
    if (owner && owner.id !== user.id) return queueDailyEmail(call, owner, "address-in-use");
    const { id, name } = user;
    const to = { id, email: address.stored, name };
    const deviceId = await findDeviceOf(call, call.principal.session.id);
    const { verifyTokenTtlMs } = call.config;
    const token = await issueOneTimeToken(call, "change-email", to, verifyTokenTtlMs, deviceId);
    await queueEmail(call, to, "change-email", variables, token.id);
  });
}

async function limitRequests(call: SessionCall): Promise<void> {
  const recent = await recentEmails(
    call,
    call.principal.user.id,
    "email-change-requested",
    HOUR_MS,
  );
  const first = recent.at(-MAX_PER_HOUR);
  if (!first) return;
  const retryAfterSeconds = Math.ceil(
    (first.createdAt.getTime() + HOUR_MS - call.clock.now().getTime()) / 1000,
  );
  const message = "Too many requests to change the e-mail address. Please try again later.";
  throw new ServiceError(Reason.RATE_LIMITED, message, { retryAfterSeconds });
}

/**
 * Requests deletion of the account and ends all its sessions. Signing in before the date cancels
 * it.
 * @returns the time at which the account will be erased
 * @throws ServiceError VALIDATION_FAILED, INVALID_CURRENT_PASSWORD, ACCOUNT_LOCKED, LAST_ADMIN
 */
export async function deleteAccount(
  call: SessionCall,
  password: string | undefined,
): Promise<Date> {
  const { user } = call.principal;
  if (password !== undefined) await confirmPassword(call, password);
  else if (!user.hasPassword) assertRecentSignIn(call);
  else if (!isRecentSignIn(call)) {
    throw invalid("password", "is required if you signed in more than 15 minutes ago");
  }
  return call.em.transactional(async () => {
    await assertOtherAdmin(call, user.id);
    await lockCaller(call);
    const now = call.clock.now();
    const deletionAt = new Date(now.getTime() + call.config.deletionGraceMs);
    await call.em.nativeUpdate(User, { id: user.id }, { deletionAt, updatedAt: now });
    await revokeSessions(call, user.id);
    await invalidateTokensOfSession(call, user.id);
    await recordAudit(call, "user.deletion_requested", { userId: user.id });
    const date = deletionAt.toISOString();
    await queueEmail(call, user, "deletion-requested", { date });
    return deletionAt;
  });
}
