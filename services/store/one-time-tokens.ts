import { defineEntity, type InferEntity, p, raw } from "@mikro-orm/core";
import { newId } from "./ids.ts";
import { type ClockedDb, type Db, firstRow } from "./statement.ts";
import { User } from "./users.ts";

/**
 * An unused token: one per user and kind, deleted once used. Its text is derived, never stored.
 */
export const OneTimeToken = defineEntity({
  name: "OneTimeToken",
  tableName: "one_time_tokens",
  properties: {
    id: p.uuid().primary(),
    user: () => p.manyToOne(User).ref(),
    kind: p.string().$type<OneTimeTokenKind>(),
    email: p.string(), // the address that the token was mailed to and that it verifies
    createdAt: p.datetime(),
    expiresAt: p.datetime(),
    failed: p.integer(), // number of guesses with an MFA token, or of an e-mail code
    deviceId: p.uuid().nullable(), // the browser or app that requested an e-mail code or a change of address
  },
});

/**
 * What a token can be used for, once. All kinds are mailed except `sign-in`, the MFA token for the
 * second step of a login. `not-me` undoes sign-ins; it is created at the first one that the owner
 * is notified of. It becomes `not-me-before` when a session changes the address of the account.
 */
export type OneTimeTokenKind =
  | "verify-email"
  | "change-email"
  | "reset-password"
  | "invitation"
  | "not-me"
  | "not-me-before"
  | "email-code"
  | "sign-in";

export interface OneTimeToken extends InferEntity<typeof OneTimeToken> {}

/** A valid token. Whoever presents it can read mail sent to this address. */
export type VerifiedToken = {
  kind: OneTimeTokenKind;
  userId: string;
  email: string;
  createdAt: Date;
  deviceId: string | null;
};
export type IssuedToken = VerifiedToken & Pick<OneTimeToken, "id" | "expiresAt">;

/**
 * Issues a token for an e-mail, replacing an older one of the same user and kind. Its text is
 * derived from its id later.
 * @param deviceId the browser or app that requested an e-mail code or a change of address
 */
export async function issueOneTimeToken(
  { em, clock }: ClockedDb,
  kind: OneTimeTokenKind,
  { id: userId, email }: Pick<User, "id" | "email">,
  lifetimeMs: number,
  deviceId: string | null = null,
): Promise<IssuedToken> {
  const createdAt = clock.now();
  const expiresAt = new Date(createdAt.getTime() + lifetimeMs);
  const token = { id: newId(createdAt), kind, email, createdAt, expiresAt, deviceId };
  await em.upsert(
    OneTimeToken,
    { ...token, user: userId, failed: 0 },
    { onConflictFields: ["user", "kind"] },
  );
  return { ...token, userId };
}

/** Deletes a user's tokens of the given kinds, or all of them. Lock the user first. */
export async function invalidateOneTimeTokens(
  { em }: Db,
  userId: string,
  kinds?: OneTimeTokenKind[],
): Promise<void> {
  await em.nativeDelete(OneTimeToken, { user: userId, ...(kinds && { kind: kinds }) });
}

/** The tokens that undo a sign-in. */
const UNDOING: OneTimeTokenKind[] = ["not-me", "not-me-before"];

/**
 * Deletes a user's tokens except those that undo a sign-in: someone who has signed in with a stolen
 * password must not be able to take this remedy from the owner. Lock the user first.
 */
export async function invalidateTokensButNotMe({ em }: Db, userId: string): Promise<void> {
  await em.nativeDelete(OneTimeToken, { user: userId, kind: { $nin: UNDOING } });
}

/** Tokens that give access to whoever reads the mail sent to the account's address. */
const OF_MAILBOX: OneTimeTokenKind[] = [
  "verify-email",
  "reset-password",
  "invitation",
  "email-code",
];

/**
 * Deletes the tokens that a change by a session invalidates: a user's tokens of the given kinds, or
 * all except those that undo a sign-in. Keeps the tokens that were mailed to an unverified address:
 * a stranger may have registered it, and must not be able to lock its owner out. Lock the user
 * first.
 */
export async function invalidateTokensOfSession(
  { em }: Db,
  userId: string,
  kinds?: OneTimeTokenKind[],
): Promise<void> {
  const isChosen = kinds ? "t.kind in (:kinds)" : "t.kind not in (:UNDOING)";
  await em.execute(
    `delete from one_time_tokens t using users u
     where t.user_id = :userId and u.id = t.user_id and ${isChosen}
       and (u.email_verified_at is not null or t.kind not in (:OF_MAILBOX))`,
    { userId, kinds: kinds ?? [], UNDOING, OF_MAILBOX },
  );
}

/**
 * Keeps the token that undoes a sign-in although the account leaves the address to which it was
 * mailed. An older token that is still valid takes precedence, so that further changes of the
 * address don't replace it. A device that was known before that sign-in belongs to the owner. A
 * change from there ends the token, since somebody else may read the mail of the address that the
 * owner leaves.
 * @param deviceId the device that requested the change; null if unknown
 */
export async function keepNotMe(
  { em, clock }: ClockedDb,
  userId: string,
  deviceId: string | null,
): Promise<void> {
  const before = { user: userId, kind: "not-me-before" as const };
  await em.nativeDelete(OneTimeToken, { ...before, expiresAt: { $lte: clock.now() } });
  await em.execute(
    `delete from one_time_tokens t using devices d
     where t.user_id = :userId and t.kind in ('not-me', 'not-me-before')
       and d.user_id = t.user_id and d.id = :deviceId::uuid and d.created_at < t.created_at`,
    { userId, deviceId },
  );
  if ((await em.count(OneTimeToken, before)) > 0) return;
  await em.nativeUpdate(OneTimeToken, { user: userId, kind: "not-me" }, { kind: before.kind });
}

/**
 * Deletes the MFA tokens of all users, who have to begin their sign-ins again. Mailed links stay
 * valid.
 */
export async function deletePendingSignIns({ em }: Db): Promise<void> {
  await em.nativeDelete(OneTimeToken, { kind: "sign-in" });
}

/**
 * Deletes a token of one of the kinds, after locking its user's row. Only one of several concurrent
 * callers gets the token.
 */
export const takeOneTimeToken = (
  db: Db,
  id: string,
  kinds: readonly OneTimeTokenKind[],
  now: Date,
): Promise<VerifiedToken | undefined> =>
  firstRow(
    db,
    `with owner as (
       select u.id from users u join one_time_tokens t on t.user_id = u.id where t.id = :id for no key update of u)
     delete from one_time_tokens t using owner o
     where t.user_id = o.id and t.id = :id and t.kind in (:kinds) and t.expires_at > :now
     returning t.kind, t.user_id as "userId", t.email, t.created_at as "createdAt", t.device_id as "deviceId"`,
    { id, kinds, now },
  );

/**
 * Consumes the MFA token of a login.
 * @returns false if it no longer exists or has expired
 */
export const consumeSignIn = async ({ em }: Db, id: string, now: Date): Promise<boolean> =>
  (await em.nativeDelete(OneTimeToken, { id, kind: "sign-in", expiresAt: { $gt: now } })) > 0;

/**
 * Counts a code sent with an MFA token.
 * @returns false if the token no longer exists or has no attempts left
 */
export async function countMfaTokenAttempt(
  { em }: Db,
  id: string,
  maxAttempts: number,
): Promise<boolean> {
  const counted = { failed: raw<number>("failed + 1") };
  return (await em.nativeUpdate(OneTimeToken, { id, failed: { $lt: maxAttempts } }, counted)) > 0;
}

/** Maximum number of guesses of an e-mail code. */
export const MAX_EMAIL_CODE_GUESSES = 5;

/**
 * Counts a guess of a user's e-mail code before it is compared, so that at most five of any number
 * of concurrent guesses are compared.
 * @returns the token whose code may now be compared; undefined if no token has guesses left
 */
export const countEmailCodeGuess = (
  db: Db,
  userId: string,
  now: Date,
): Promise<Pick<OneTimeToken, "id"> | undefined> =>
  firstRow(
    db,
    `update one_time_tokens set failed = failed + 1
     where user_id = :userId and kind = 'email-code' and expires_at > :now and failed < ${MAX_EMAIL_CODE_GUESSES}
     returning id`,
    { userId, now },
  );
