import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call, SessionCall, SystemCall } from "../call.ts";
import { recordFailedAttempt, withAttempt } from "../lockout/reserve-attempt.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { userOf } from "../principal.ts";
import { lockOpenSession } from "../store/sessions.ts";
import { lockAdminsAnd, lockUser, User } from "../store/users.ts";

/**
 * Locks the caller's row and checks the session like `lockOwnSession`.
 * @throws ServiceError UNAUTHENTICATED
 */
export async function lockCaller(call: SessionCall): Promise<void> {
  await lockUser(call, call.principal.user.id);
  await lockOwnSession(call);
}

/**
 * Checks that the caller's session has not ended since the call was authenticated, and keeps it
 * from being deleted.
 * @throws ServiceError UNAUTHENTICATED
 */
export async function lockOwnSession(call: SessionCall): Promise<void> {
  const { user, session } = call.principal;
  if (await lockOpenSession(call, session.id, user.id)) return;
  throw new ServiceError(Reason.UNAUTHENTICATED, "This session has ended. Please sign in.");
}

/**
 * Verifies the caller's current password. Wrong passwords are counted separately from logins, so
 * that guesses by others never block a signed-in user. A caller without a password needs a recent
 * sign-in or confirmation instead.
 * @returns the caller's row as of the verification
 * @throws ServiceError INVALID_CURRENT_PASSWORD, REAUTHENTICATION_REQUIRED, ACCOUNT_LOCKED,
 * UNAUTHENTICATED, UNAVAILABLE
 */
export async function confirmPassword(call: SessionCall, password: string): Promise<User> {
  const user = await call.em.findOne(User, { id: call.principal.user.id });
  if (!user) throw accountGone();
  if (!user.hasPassword) {
    assertRecentSignIn(call);
    return user;
  }
  return withAttempt(call, { kind: "confirmation", subject: user.id }, async (attempt) => {
    const check = await call.passwords.check(user.passwordHash, password, call.client.address);
    if (check === "wrong") {
      await recordFailedAttempt(call, attempt, "auth.login_failed", user);
      throw wrongPassword();
    }
    await attempt.succeed();
    if (check === "outdated") await renewHash(call, user, password);
    return user;
  });
}

/** Proof in a request that the caller is the user, and not someone who has stolen their token. */
export type Confirmation = { password?: string | undefined };

/**
 * Verifies the proof that the caller is the user, or that the caller has confirmed the session
 * within 15 minutes. A sign-in within that time is not enough, because the session may have been
 * stolen since.
 * @throws ServiceError REAUTHENTICATION_REQUIRED without a proof, and as `confirmPassword`
 */
export async function confirmCaller(call: SessionCall, { password }: Confirmation): Promise<void> {
  const { session, user } = call.principal;
  if (password !== undefined && user.hasPassword)
    return void (await confirmPassword(call, password));
  if (session.confirmedAt && isRecentSignIn(call)) return;
  const message = "Please confirm this change with your password.";
  throw new ServiceError(Reason.REAUTHENTICATION_REQUIRED, message);
}

/** Rehashes a verified password, unless it has been changed in the meantime. */
export async function renewHash(
  call: Call,
  { id, passwordHash: outdated }: Pick<User, "id" | "passwordHash">,
  password: string,
): Promise<void> {
  const passwordHash = await call.passwords.hash(password, call.client.address);
  await call.em.nativeUpdate(User, { id, passwordHash: outdated }, { passwordHash });
}

/** The error for a caller whose account has been erased. */
export const accountGone = () =>
  new ServiceError(Reason.UNAUTHENTICATED, "This account no longer exists.");

/** The error for a wrong current password. */
export const wrongPassword = () =>
  new ServiceError(Reason.INVALID_CURRENT_PASSWORD, "The current password is wrong.");

/** Time after a sign-in or a confirmation during which no other proof is required, in ms. */
export const RECENT_SIGN_IN_MS = 15 * 60_000;

/**
 * Whether the caller signed in, or confirmed the session, within the given time. Refreshes do not
 * count: a session keeps the time of its sign-in.
 */
export const isRecentSignIn = (
  { principal, clock }: Pick<SessionCall, "principal" | "clock">,
  withinMs = RECENT_SIGN_IN_MS,
): boolean => clock.now().getTime() - principal.authenticatedAt.getTime() <= withinMs;

/**
 * Checks that the caller has signed in recently or provides the password. A stolen access token
 * must not suffice to create another credential.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, and as `confirmPassword`
 */
export async function confirmRecently(
  call: SessionCall,
  password: string | undefined,
): Promise<void> {
  if (password !== undefined) await confirmPassword(call, password);
  else if (!isRecentSignIn(call)) throw reauthenticationRequired("Please enter your password.");
}

/**
 * The error for a sign-in that is not recent enough for an operation.
 * @param remedy what the user can do
 */
export const reauthenticationRequired = (remedy: string) =>
  new ServiceError(Reason.REAUTHENTICATION_REQUIRED, `This requires a recent sign-in. ${remedy}`);

/**
 * Checks that the caller signed in or confirmed the session within 15 minutes.
 * @throws ServiceError REAUTHENTICATION_REQUIRED
 */
export function assertRecentSignIn(call: SessionCall): void {
  if (!isRecentSignIn(call)) throw reauthenticationRequired("Please confirm that it is you.");
}

/**
 * Checks that the administrator signed in recently: a stolen session must not suffice to take over
 * an account.
 * @throws ServiceError REAUTHENTICATION_REQUIRED
 */
export function assertRecentAdminSignIn({ principal, clock, config }: SystemCall): void {
  if (principal?.kind !== "session" || config.adminReauthMs === 0) return;
  if (!isRecentSignIn({ principal, clock }, config.adminReauthMs))
    throw reauthenticationRequired("Please sign in again.");
}

/**
 * Checks, within the transaction of a change, that the caller has not been demoted since the call
 * was authorized: if two administrators demote each other, only the first succeeds. Call it after
 * taking the locks of the change.
 * @throws ServiceError FORBIDDEN
 */
export async function assertStillAdmin({ em, principal }: SystemCall): Promise<void> {
  const user = userOf(principal);
  if (!user) return; // the command line
  const isAdmin = (await em.count(User, { id: user.id, role: "admin" })) > 0;
  if (!isAdmin) throw new ServiceError(Reason.FORBIDDEN, "This requires the role admin.");
}

/**
 * Checks that another administrator remains if this user is one. Administrator rows stay locked
 * until the transaction ends. Administrators who have requested deletion do not count.
 * @throws ServiceError LAST_ADMIN
 */
export async function assertOtherAdmin(
  call: Pick<SystemCall, "em">,
  userId: string,
): Promise<void> {
  const users = await lockAdminsAnd(call, userId);
  const isAdmin = users.some((user) => user.id === userId && user.isAdmin);
  if (isAdmin && !users.some((user) => user.id !== userId && !user.isLeaving)) {
    throw new ServiceError(
      Reason.LAST_ADMIN,
      "This is the last administrator. Please make another user an administrator first.",
    );
  }
}
