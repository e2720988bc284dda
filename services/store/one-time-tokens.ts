import { defineEntity, p } from "@mikro-orm/core";
import type { Db } from "./store.ts";
import { User } from "./users.ts";

const table = defineEntity({
  name: "OneTimeToken",
  tableName: "one_time_tokens",
  properties: {
    id: p.uuid().primary(),
    user: () => p.manyToOne(User).ref(),
    kind: p.string().$type<OneTimeTokenKind>(),
    email: p.string(), // the address the token was mailed to, and proves
    createdAt: p.datetime(),
    expiresAt: p.datetime(),
    failed: p.integer(), // wrong codes presented with an MFA token
  },
});

/** What a token can be used for, once: three are mailed, `sign-in` is the MFA token of a login's second step. */
export type OneTimeTokenKind = "verify-email" | "change-email" | "reset-password" | "sign-in";

/** An unused token: one per user and kind, deleted once consumed. Its text is derived, never stored. */
export class OneTimeToken extends table.class {}
table.setClass(OneTimeToken);

/** A token that was presented and is valid: its bearer reads the mail of this address. */
export type VerifiedToken = { kind: OneTimeTokenKind; userId: string; email: string };
export type IssuedToken = VerifiedToken & Pick<OneTimeToken, "id" | "createdAt" | "expiresAt">;

/** Inserts a token, or replaces the user's older one of that kind. */
export async function putOneTimeToken({ em }: Db, token: IssuedToken): Promise<void> {
  await em.execute(
    `insert into one_time_tokens (id, user_id, kind, email, created_at, expires_at) values (?, ?, ?, ?, ?, ?)
     on conflict (user_id, kind) do update set
       id = excluded.id, email = excluded.email, created_at = excluded.created_at, expires_at = excluded.expires_at,
       failed = 0`,
    [token.id, token.userId, token.kind, token.email, token.createdAt, token.expiresAt],
  );
}

/** Deletes a token of one of the kinds and locks its user's row first. Of several callers one gets the token. */
export async function takeOneTimeToken(
  { em }: Db,
  id: string,
  kinds: readonly OneTimeTokenKind[],
  now: Date,
): Promise<VerifiedToken | undefined> {
  const [token] = await em.execute<VerifiedToken[]>(
    `with owner as (
       select u.id from users u join one_time_tokens t on t.user_id = u.id where t.id = ? for no key update of u)
     delete from one_time_tokens t using owner o
     where t.user_id = o.id and t.id = ? and t.kind in (?) and t.expires_at > ?
     returning t.kind, t.user_id as "userId", t.email`,
    [id, id, kinds, now],
  );
  return token;
}

/** Counts a code that is presented with an MFA token. @returns false if the token is gone or has no attempt left. */
export async function countMfaTokenAttempt({ em }: Db, id: string, maxAttempts: number): Promise<boolean> {
  const rows = await em.execute<unknown[]>(
    "update one_time_tokens set failed = failed + 1 where id = ? and failed < ? returning id",
    [id, maxAttempts],
  );
  return rows.length > 0;
}
