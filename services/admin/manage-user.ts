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
  type Confirmation,
  confirmCaller,
} from "../accounts/guards.ts";
import { storedMetadata } from "../accounts/user-metadata.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall, SystemCall } from "../call.ts";
import { disableMfa, needsSecondFactor } from "../mfa/second-factor.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { userOf } from "../principal.ts";
import { type AdminUser, findAdminUser } from "../store/admin-users.ts";
import { clearLocks } from "../store/attempts.ts";
import { canonicalId } from "../store/ids.ts";
import { endImpersonations, revokeSessions } from "../store/sessions.ts";
import { ADMIN_PROTECTION_MS, lockAdminsAnd, lockUser, type Role, User } from "../store/users.ts";
import { announceRole } from "./announce-role.ts";

/**
 * Reads one user.
 * @throws ServiceError NOT_FOUND
 */
export async function readAdminUser(call: Pick<SystemCall, "em">, id: string): Promise<AdminUser> {
  const user = await findAdminUser(call, id);
  if (!user) throw userNotFound();
  return user;
}

/** The error for an unknown user id. */
export const userNotFound = () => new ServiceError(Reason.NOT_FOUND, "There is no such user.");

const DAY_MS = 86_400_000;

const FIELDS = [
  "name",
  "email",
  "role",
  "emailVerified",
  "locked",
  "mfaEnabled",
  "suspended",
  "metadata",
] as const;
/** The fields of a service account that can be changed. */
const SERVICE_FIELDS: readonly string[] = ["name", "suspended", "metadata"];
/**
 * Changes to a user. Undefined fields keep their values. The proto only allows false for `locked`
 * and `mfaEnabled`.
 */
type UserChanges = Pick<UpdateUserRequest, (typeof FIELDS)[number]>;

/** Fields that can only be changed after a recent sign-in. */
const SENSITIVE = ["email", "role", "emailVerified", "mfaEnabled", "suspended"] as const;

/**
 * Changes a user for an administrator, who must prove not to be using a stolen token: with a recent
 * sign-in and, to change the role, a confirmation in the request. These checks do not depend on
 * whether the user exists.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, INVALID_CURRENT_PASSWORD, ACCOUNT_LOCKED, and the
 * errors of `updateUser`
 */
export async function updateUserAsAdmin(
  call: SessionCall,
  userId: string,
  changes: UserChanges,
  confirmation: Confirmation,
): Promise<AdminUser> {
  if (SENSITIVE.some((field) => changes[field] !== undefined)) assertRecentAdminSignIn(call);
  if (changes.role === "user") assertNotSelf(call, canonicalId(userId), "demote");
  if (changes.role !== undefined) await confirmCaller(call, confirmation);
  return updateUser(call, userId, changes);
}

/**
 * Changes a user. Demoting and suspending the user, changing the address and removing the second
 * factor revoke the user's sessions; a promotion revokes impersonations of the user. A new address
 * is unverified unless `emailVerified` is true. The metadata is replaced as a whole.
 * @throws ServiceError NOT_FOUND, EMAIL_TAKEN, SELF_TARGETED, CONFLICT, LAST_ADMIN, FORBIDDEN,
 * VALIDATION_FAILED
 */
export async function updateUser(
  call: SystemCall,
  userId: string,
  changes: UserChanges,
): Promise<AdminUser> {
  const id = canonicalId(userId);
  const address = changes.email === undefined ? undefined : readEmailAddress(changes.email);
  return withUniqueAddress(call, async () => {
    await lockForUpdate(call, id, changes.role);
    await assertStillAdmin(call);
    const user = await call.em.findOne(User, { id });
    if (!user) throw userNotFound();
    const fields = FIELDS.filter((field) => changes[field] !== undefined);
    if (user.isService && fields.some((field) => !SERVICE_FIELDS.includes(field))) {
      const message =
        "Only the name, the metadata and the suspension of a service account can be changed.";
      throw new ServiceError(Reason.CONFLICT, message);
    }
    assertSuspendable(call, user, changes);
    assertEditableAccess(call, user, changes, address);
    if (fields.length === 0) return readAdminUser(call, id);
    const recorded = recordedChanges(user, changes);
    await applyChanges(call, user, changes, address);
    const others = fields.filter((field) => field !== "suspended");
    const details = { fields: others, ...(changes.role && { role: changes.role }), ...recorded };
    if (others.length > 0) await recordAudit(call, "admin.user_updated", { userId: id, details });
    return readAdminUser(call, id);
  });
}

/** Fields whose values the audit log may keep: they say nothing about a person. */
const RECORDED = ["role", "emailVerified", "mfaEnabled"] as const;

/** What changes, before and after. Call it before the user is changed. */
function recordedChanges(user: User, wanted: UserChanges) {
  const changed = RECORDED.flatMap((field) => {
    const [from, to] = [user[field], wanted[field]];
    return to === undefined || from === to ? [] : [[field, { from, to }]];
  });
  return changed.length > 0 ? { changes: Object.fromEntries(changed) } : {};
}

/**
 * Locks a user and, to change the role, all administrators, so that such changes happen one at a
 * time and each knows whom to notify.
 * @throws ServiceError SELF_TARGETED, LAST_ADMIN
 */
async function lockForUpdate(call: SystemCall, id: string, role: string | undefined) {
  if (role === "user") await assertRemovableAdmin(call, id, "demote");
  else if (role !== undefined) await lockAdminsAnd(call, id);
  await lockUser(call, id);
}

/**
 * Checks that the changes do not affect how an administrator, or someone who was one a few days
 * ago, signs in or recovers the account. A stolen access token must not suffice to take over such
 * an account permanently: the routes for one's own account ask for the password.
 * @throws ServiceError SELF_TARGETED, CONFLICT for another administrator
 */
function assertEditableAccess(
  { principal, clock }: SystemCall,
  user: User,
  changes: UserChanges,
  address: EmailAddress | undefined,
): void {
  const caller = userOf(principal);
  if (!caller) return; // the command line
  if (!changesAccess(user, changes, address) || !user.isProtectedAsAdmin(clock.now())) return;
  if (caller.id === user.id) {
    const message =
      "Administrators can't change their own address, verification or second factor here.";
    throw new ServiceError(
      Reason.SELF_TARGETED,
      `${message} Please use the settings of your account.`,
    );
  }
  const message =
    "The address, verification and second factor of another administrator can't be changed";
  const days = ADMIN_PROTECTION_MS / DAY_MS;
  throw new ServiceError(Reason.CONFLICT, `${message} until ${days} days after a demotion.`);
}

/**
 * Checks that the changes leave no administrator suspended: administrators are demoted first, which
 * needs a password and is announced.
 * @throws ServiceError SELF_TARGETED, CONFLICT
 */
function assertSuspendable(call: SystemCall, user: User, { role, suspended }: UserChanges): void {
  if (suspended) assertNotSelf(call, user.id, "suspend");
  if (!(suspended ?? user.suspendedAt != null) || (role ?? user.role) !== "admin") return;
  throw new ServiceError(
    Reason.CONFLICT,
    suspended
      ? "Administrators can't be suspended. Please change the role first."
      : "Suspended users can't become administrators. Please reinstate the user first.",
  );
}

/** Whether changes affect how a user signs in or recovers the account. */
function changesAccess(
  user: User,
  { emailVerified, mfaEnabled }: UserChanges,
  address: EmailAddress | undefined,
): boolean {
  if (address !== undefined && address.stored !== user.email) return true;
  if (emailVerified !== undefined && emailVerified !== user.emailVerified) return true;
  return mfaEnabled === false && needsSecondFactor(user);
}

async function applyChanges(
  call: SystemCall,
  user: User,
  changes: UserChanges,
  address: EmailAddress | undefined,
): Promise<void> {
  const { id, name, email, canonicalEmail, role } = user;
  call.em.assign(user, changedColumns(user, changes, address, call.clock.now()));
  await call.em.flush();
  const isMoving = user.canonicalEmail !== canonicalEmail;
  const isDemoted = role === "admin" && user.role === "user";
  if (isMoving)
    await leaveAddress(call, { id, name, email, canonicalEmail }, user.email, "administrator");
  if (changes.locked === false) await clearLocks(call, user, "operator");
  const losesFactor = changes.mfaEnabled === false && (await disableMfa(call, id));
  const isSuspended = await applySuspension(call, user, changes.suspended);
  if (isMoving || losesFactor || isDemoted || isSuspended) await revokeSessions(call, id);
  if (user.role === role) return;
  if (user.role === "admin") await endImpersonations(call, id); // administrators can't be impersonated
  await announceRole(call, user);
}

/**
 * Suspends or reinstates a user, unless it already is as wanted.
 * @returns whether the user is suspended now, and was not before
 */
async function applySuspension(
  call: SystemCall,
  user: User,
  suspended: boolean | undefined,
): Promise<boolean> {
  if (suspended === undefined || suspended === (user.suspendedAt != null)) return false;
  call.em.assign(user, { suspendedAt: suspended ? call.clock.now() : null });
  await call.em.flush();
  const event = suspended ? "admin.user_suspended" : "admin.user_reinstated";
  await recordAudit(call, event, { userId: user.id });
  return suspended;
}

/** The new column values of a user, computed from the unchanged user. */
function changedColumns(
  user: User,
  changes: UserChanges,
  address: EmailAddress | undefined,
  now: Date,
) {
  const { stored: email, canonical: canonicalEmail } = address ?? {
    stored: user.email,
    canonical: user.canonicalEmail,
  };
  const staysVerified = user.emailVerified && canonicalEmail === user.canonicalEmail;
  const emailVerified = changes.emailVerified ?? staysVerified;
  const role = (changes.role as Role | undefined) ?? user.role;
  const isDemoted = user.role === "admin" && role === "user";
  return {
    name: changes.name?.trim() ?? user.name,
    metadata: changes.metadata ? storedMetadata(changes.metadata) : (user.metadata ?? null),
    email,
    canonicalEmail,
    role,
    demotedAt: isDemoted ? now : user.demotedAt,
    wasVerified: user.wasVerified || user.emailVerified,
    emailVerifiedAt: emailVerified ? (user.emailVerifiedAt ?? now) : null,
    updatedAt: now,
  };
}

/**
 * Erases a user immediately. The audit log keeps the id, which no longer identifies anyone. To
 * erase another administrator, or somebody who was one lately, the caller needs a recent sign-in: a
 * stolen access token must not suffice to remove those who could stop it.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, SELF_TARGETED, LAST_ADMIN, FORBIDDEN
 */
export async function deleteUser(call: SystemCall, userId: string): Promise<void> {
  const id = canonicalId(userId);
  await call.em.transactional(async () => {
    await assertRemovableAdmin(call, id, "delete");
    await assertStillAdmin(call);
    const user = await call.em.findOne(User, { id });
    if (user?.isProtectedAsAdmin(call.clock.now())) assertRecentAdminSignIn(call);
    await recordAudit(call, "admin.user_deleted", { userId: id });
    if (!(await eraseUser(call, id))) throw userNotFound();
  });
}

/**
 * Ends all sessions of a user.
 * @returns the number of sessions ended
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
 * Checks that an administrator may be deleted or demoted: is neither the caller nor the last one.
 * Administrator rows stay locked until the transaction ends, so that such changes happen one at a
 * time.
 * @throws ServiceError SELF_TARGETED, LAST_ADMIN
 */
async function assertRemovableAdmin(
  call: SystemCall,
  id: string,
  action: "delete" | "demote",
): Promise<void> {
  assertNotSelf(call, id, action);
  await assertOtherAdmin(call, id);
}

/**
 * Checks that an operation of administrators does not concern the caller.
 * @throws ServiceError SELF_TARGETED
 */
export function assertNotSelf(
  { principal }: SystemCall,
  id: string,
  action: "delete" | "demote" | "reset the access of" | "suspend",
): void {
  if (userOf(principal)?.id !== id) return;
  const message = `Administrators can't ${action} themselves. Please ask another administrator.`;
  throw new ServiceError(Reason.SELF_TARGETED, message);
}
