import { auditRow } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { SETTLE_RIGHT_PASSWORD } from "../lockout/attempts.ts";
import { prepared } from "../store/store.ts";
import type { User } from "../store/user.ts";
import { newSession, OPEN_SESSION } from "./sessions.ts";
import { createTokenPair, type TokenPair } from "./tokens.ts";

/** The parts of an account that a sign-in looks at. */
export type LoginUser = Pick<User, "id" | "email" | "name" | "role" | "passwordChangedAt" | "mfaSecret">;

/** Somebody who has proved who they are. */
export type LoginResult = {
  user: LoginUser;
  tokens: TokenPair;
  passwordExpired: boolean;
  /** A requested deletion was taken back. */
  restored: boolean;
};

/** What the statement returns: tokens describe the user as of the moment from which a revocation finds their session. */
type OpenedRow = Pick<User, "email" | "name" | "role"> & { restored: boolean };

/**
 * Opens a session for a user whose proofs were checked against this row, unless password or second factor have changed
 * since. Takes a requested deletion back.
 * @param guessed whose right password is settled with it; null when a second factor was the proof, whose transaction it
 * joins then.
 * @returns undefined when the row is no longer the one that was checked.
 */
export async function openSession(
  call: Call,
  user: LoginUser,
  guessed: string | null,
): Promise<LoginResult | undefined> {
  const now = call.clock.now();
  const session = newSession(call);
  const events = (["user.restored", "auth.login"] as const).map((event) => auditRow(call, event, { userId: user.id }));
  const values = [
    now,
    now,
    user.id,
    ...unchangedValues(user, now),
    JSON.stringify(session.row),
    JSON.stringify(events),
    guessed,
  ];
  const sign = async () => {
    const [row] = await (guessed === null
      ? call.em.execute<OpenedRow[]>(SIGN_IN, values)
      : call.query<OpenedRow>(PREPARED_SIGN_IN, values));
    return row;
  };
  const row = (await sign()) ?? (await sign()); // a parallel sign-in may have taken the deletion back
  if (!row) return undefined;
  const { restored, ...present } = row;
  const signed = { ...user, ...present };
  const tokens = createTokenPair(call, session.token, signed);
  return { user: signed, tokens, passwordExpired: isPasswordExpired(call, user), restored };
}

/** Locks a user whose password was checked against this row. @returns false when the row has changed since. */
export async function lockIfUnchanged(call: Call, user: LoginUser): Promise<boolean> {
  const rows = await call.em.execute<unknown[]>(
    `select u.id from users as u where u.id = ? and ${ROW_UNCHANGED} for no key update`,
    [user.id, ...unchangedValues(user, call.clock.now())],
  );
  return rows.length > 0;
}

const ROW_UNCHANGED = `u.password_changed_at = ? and u.mfa_secret is not distinct from ?
  and (u.deletion_at is null or u.deletion_at > ?)`;

/**
 * A requested deletion as it stood when the statement began. Read without a lock: of two statements that lock a row and
 * then update it, each waits for the other while a third party shares that row.
 */
const DELETION_AT = "(select o.deletion_at from users as o where o.id = u.id)";

/** One statement, so one round trip and one commit: user, session, audit events and counter, all of them or nothing. */
const SIGN_IN = `with signed as (
    update users as u set last_login_at = ?, deletion_at = null,
      updated_at = case when u.deletion_at is null then u.updated_at else ? end
    where u.id = ? and ${ROW_UNCHANGED} and u.deletion_at is not distinct from ${DELETION_AT}
    returning u.id, u.email, u.name, u.role, ${DELETION_AT} is not null as restored),
  ${OPEN_SESSION},
  recorded as (
    insert into audit_events
    select r.* from signed, jsonb_populate_recordset(null::audit_events, ?::jsonb) as r
    where signed.restored or r.event <> 'user.restored' returning id),
  unsealed as (insert into audit_unsealed (event_id) select id from recorded),
  ${SETTLE_RIGHT_PASSWORD}
  select email, name, role, restored from signed`;
const PREPARED_SIGN_IN = prepared("sign_in", SIGN_IN);

function unchangedValues(user: LoginUser, now: Date): unknown[] {
  return [user.passwordChangedAt, user.mfaSecret ?? null, now];
}

/** Whether the password has reached its maximum age. */
export function isPasswordExpired(
  { config, clock }: Pick<Call, "config" | "clock">,
  user: Pick<User, "passwordChangedAt">,
): boolean {
  return (
    config.passwordMaxAgeMs > 0 && clock.now().getTime() - user.passwordChangedAt.getTime() >= config.passwordMaxAgeMs
  );
}
