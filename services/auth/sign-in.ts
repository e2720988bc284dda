import { recordAudit } from "../audit.ts";
import type { Call } from "../call.ts";
import { openSession } from "../security/sessions.ts";
import type { TokenPair } from "../security/tokens.ts";
import type { User } from "../store/user.ts";

/** Somebody who has proved who they are. */
export type SignedIn = {
  user: User;
  tokens: TokenPair;
  passwordExpired: boolean;
  /** A requested deletion was taken back. */
  restored: boolean;
};

/**
 * Opens a session for a user whose proofs were checked against this row, unless password or second factor have changed
 * since. Takes a requested deletion back. Joins the transaction it is called in.
 * @returns undefined when the row is no longer the one that was checked.
 */
export async function signIn(call: Call, user: User): Promise<SignedIn | undefined> {
  const now = call.clock.now();
  const [row] = await call.em.execute<{ restored: boolean }[]>(
    `with old as (select id, deletion_at from users where id = ? for no key update)
     update users as u set last_login_at = ?, deletion_at = null from old
     where u.id = old.id and ${UNCHANGED} returning old.deletion_at is not null as restored`,
    [user.id, now, ...unchangedValues(user, now)],
  );
  if (!row) return undefined;
  if (row.restored) await recordAudit(call, "user.restored", { userId: user.id });
  await recordAudit(call, "auth.login", { userId: user.id });
  const tokens = await openSession(call, user);
  return { user, tokens, passwordExpired: isPasswordExpired(call, user), restored: row.restored };
}

/** Locks a user whose password was checked against this row. @returns false when the row has changed since. */
export async function lockUnchanged(call: Call, user: User): Promise<boolean> {
  const rows = await call.em.execute<unknown[]>(
    `select u.id from users as u where u.id = ? and ${UNCHANGED} for no key update`,
    [user.id, ...unchangedValues(user, call.clock.now())],
  );
  return rows.length > 0;
}

const UNCHANGED = `u.password_changed_at = ? and u.mfa_secret is not distinct from ?
  and (u.deletion_at is null or u.deletion_at > ?)`;

function unchangedValues(user: User, now: Date): unknown[] {
  return [user.passwordChangedAt, user.mfaSecret ?? null, now];
}

/** Whether the password has reached its greatest age. */
export function isPasswordExpired({ config, clock }: Pick<Call, "config" | "clock">, user: User): boolean {
  return (
    config.passwordMaxAgeMs > 0 && clock.now().getTime() - user.passwordChangedAt.getTime() >= config.passwordMaxAgeMs
  );
}
