import type { UpdateUserRequest } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import {
  type EmailAddress,
  leaveAddress,
  readEmailAddress,
  withUniqueAddress,
} from "../accounts/email-address.ts";
import { eraseUser } from "../accounts/erase-user.ts";
import {
  assertOtherAdmin,
  assertRecentAdminSignIn,
  assertStillAdmin,
  lockOwnSession,
} from "../accounts/guards.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall, SystemCall } from "../call.ts";
import { disableMfa } from "../mfa/second-factor.ts";
import { ServiceError } from "../platform/errors.ts";
import { newSession } from "../sessions/open-session.ts";
import { createAccessToken } from "../sessions/tokens.ts";
import { type AdminUser, findAdminUser } from "../store/admin-users.ts";
import { clearLocks } from "../store/attempts.ts";
import { endImpersonations, revokeSessions, Session } from "../store/sessions.ts";
import { dropSurplusImpersonation } from "../store/sign-in.ts";
import { canonicalId } from "../store/store.ts";
import { lockUser, type Role, User } from "../store/users.ts";

/**
 * Reads one user.
 * @throws ServiceError NOT_FOUND
 */
export async function readAdminUser(call: Pick<SystemCall, "em">, id: string): Promise<AdminUser> {
  const user = await findAdminUser(call, id);
  if (!user) throw userNotFound();
  return user;
}

const userNotFound = () => new ServiceError(Reason.NOT_FOUND, "There is no such user.");

const FIELDS = ["name", "email", "role", "emailVerified", "locked", "mfaEnabled"] as const;
/**
 * Changes of a user. Undefined fields stay as they are. The proto allows no true for `locked` and
 * `mfaEnabled`.
 */
type UserChanges = Pick<UpdateUserRequest, (typeof FIELDS)[number]>;

/** Fields whose change requires a recent sign-in. */
const SENSITIVE = ["email", "role", "emailVerified", "mfaEnabled"] as const;

/**
 * Changes a user. A demotion, another address and the loss of the second factor revoke the user's
 * sessions, a promotion those of impersonators. A new address counts as unverified unless
 * `emailVerified` says otherwise.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, EMAIL_TAKEN, SELF_TARGETED, CONFLICT,
 * LAST_ADMIN, FORBIDDEN, VALIDATION_FAILED
 */
export async function updateUser(
  call: SystemCall,
  userId: string,
  changes: UserChanges,
): Promise<AdminUser> {
  const id = canonicalId(userId);
  if (SENSITIVE.some((field) => changes[field] !== undefined)) assertRecentAdminSignIn(call); // whether or not the user exists
  const address = changes.email === undefined ? undefined : readEmailAddress(changes.email);
  return withUniqueAddress(call, async () => {
    if (changes.role === "user") await assertRemovableAdmin(call, id, "demote");
    await lockUser(call, id);
    await assertStillAdmin(call);
    const user = await call.em.findOne(User, { id });
    if (!user) throw userNotFound();
    assertEditableAccess(call, user, changes, address);
    const fields = FIELDS.filter((field) => changes[field] !== undefined);
    if (fields.length === 0) return readAdminUser(call, id);
    await applyChanges(call, user, changes, address);
    const details = { fields, ...(changes.role && { role: changes.role }) };
    await recordAudit(call, "admin.user_updated", { userId: id, details });
    return readAdminUser(call, id);
  });
}

/**
 * Checks that the changes do not concern how an administrator signs in or recovers the account. A
 * stolen access token must not be enough to take over such an account for good: the administrator's
 * own routes ask for the password.
 * @throws ServiceError SELF_TARGETED, CONFLICT for another administrator
 */
function assertEditableAccess(
  { caller }: SystemCall,
  user: User,
  { emailVerified, mfaEnabled }: UserChanges,
  address?: EmailAddress,
): void {
  const changesAccess =
    (address !== undefined && address.stored !== user.email) ||
    (emailVerified !== undefined && emailVerified !== user.emailVerified) ||
    (mfaEnabled === false && user.mfaEnabled);
  if (!changesAccess || !caller || user.role !== "admin") return; // no caller: the command line
  if (caller.user.id === user.id) {
    const message =
      "Administrators can't change their own address, verification or second factor here.";
    throw new ServiceError(
      Reason.SELF_TARGETED,
      `${message} Please use the settings of your account.`,
    );
  }
  const message =
    "The address, verification and second factor of another administrator can't be changed.";
  throw new ServiceError(Reason.CONFLICT, `${message} Please demote the administrator first.`);
}

async function applyChanges(
  call: SystemCall,
  user: User,
  changes: UserChanges,
  address?: EmailAddress,
): Promise<void> {
  const now = call.clock.now();
  const { id, name, email, canonicalEmail, role } = user;
  const isMoving = address !== undefined && address.canonical !== canonicalEmail;
  const emailVerified = changes.emailVerified ?? (isMoving ? false : user.emailVerified);
  call.em.assign(user, {
    name: changes.name?.trim() ?? user.name,
    email: address?.stored ?? user.email,
    canonicalEmail: address?.canonical ?? user.canonicalEmail,
    role: (changes.role as Role | undefined) ?? user.role,
    wasVerified: user.wasVerified || user.emailVerified,
    emailVerifiedAt: emailVerified ? (user.emailVerifiedAt ?? now) : null,
    updatedAt: now,
  });
  await call.em.flush();
  if (isMoving) await leaveAddress(call, { id, name, email, canonicalEmail }, user.email);
  if (changes.locked === false) await clearLocks(call, user, "operator");
  const losesFactor = changes.mfaEnabled === false && (await disableMfa(call, id));
  if (isMoving || losesFactor || (role === "admin" && user.role === "user"))
    await revokeSessions(call, id);
  if (role === "user" && user.role === "admin") await endImpersonations(call, id); // administrators can't be impersonated
}

/**
 * Erases a user at once; the audit log keeps the id, which no longer leads to anybody.
 * @throws ServiceError NOT_FOUND, SELF_TARGETED, LAST_ADMIN, FORBIDDEN
 */
export async function deleteUser(call: SystemCall, userId: string): Promise<void> {
  const id = canonicalId(userId);
  await call.em.transactional(async () => {
    await assertRemovableAdmin(call, id, "delete");
    await assertStillAdmin(call);
    await recordAudit(call, "admin.user_deleted", { userId: id });
    if (!(await eraseUser(call, id))) throw userNotFound();
  });
}

/**
 * Ends every session of a user.
 * @returns how many ended
 * @throws ServiceError NOT_FOUND
 */
export async function revokeUserSessions(call: SystemCall, userId: string): Promise<number> {
  return call.em.transactional(async () => {
    if (!(await lockUser(call, userId))) throw userNotFound();
    await assertStillAdmin(call);
    const sessions = await revokeSessions(call, userId);
    await recordAudit(call, "admin.sessions_revoked", { userId, details: { sessions } });
    return sessions;
  });
}

/**
 * Checks that an administrator may be deleted or demoted: not the caller and not the last one. The
 * administrators' rows stay locked until the transaction ends, so such changes happen one after the
 * other.
 * @throws ServiceError SELF_TARGETED, LAST_ADMIN
 */
async function assertRemovableAdmin(
  call: SystemCall,
  id: string,
  action: "delete" | "demote",
): Promise<void> {
  if (call.caller?.user.id === id) {
    const message = `Administrators can't ${action} themselves. Please ask another one.`;
    throw new ServiceError(Reason.SELF_TARGETED, message);
  }
  await assertOtherAdmin(call, id);
}

/** Longest impersonation, in ms. */
const MAX_DURATION_MS = 15 * 60_000;

/**
 * Opens a session in a user's name. It has no refresh token, so it ends with its access token, or
 * with the administrator's own session.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, SELF_TARGETED, CONFLICT for another
 * administrator, UNAUTHENTICATED when that session has ended meanwhile
 */
export async function impersonate(call: SignedInCall, id: string, reason = "") {
  const userId = canonicalId(id);
  const admin = call.caller.user;
  assertRecentAdminSignIn(call);
  if (admin.id === userId)
    throw new ServiceError(Reason.SELF_TARGETED, "Administrators can't impersonate themselves.");
  const durationMs = Math.min(MAX_DURATION_MS, call.config.accessTokenTtlMs);
  const session = newSession(call, durationMs, durationMs);
  const { id: sessionId, createdAt } = session;
  const { user, expiresAt } = await call.em.transactional(async () => {
    await lockUser(call, userId); // waits for a promotion in progress
    const user = await call.em.findOne(User, { id: userId });
    if (!user || user.isDeletionDue(createdAt)) throw userNotFound();
    await lockOwnSession(call);
    if (user.role === "admin")
      throw new ServiceError(Reason.CONFLICT, "Administrators can't be impersonated.");
    const own = await call.em.findOneOrFail(Session, { id: call.caller.session.id });
    const expiresAt = new Date(Math.min(session.expiresAt.getTime(), own.expiresAt.getTime()));
    const times = { rotatedAt: createdAt, lastActiveAt: createdAt, expiresAt, endsAt: expiresAt };
    const began = { ...session, ...times, generation: 0, successorUsed: false };
    await dropSurplusImpersonation(call, userId);
    await call.em.insert(Session, {
      ...began,
      user: userId,
      actorId: admin.id,
      actorSessionId: own.id,
    });
    await recordAudit(call, "admin.impersonated", {
      userId,
      details: { sessionId, ...(reason && { reason }) },
    });
    return { user, expiresAt };
  });
  const tokenSession = {
    id: sessionId,
    generation: 0,
    rotatedAt: createdAt,
    expiresAt,
    actorId: admin.id,
  };
  return { accessToken: createAccessToken(call, tokenSession, user), user, expiresAt };
}
