import type { Role, User } from "../store/user.ts";

/** The account that a password is guessed of, as it stood when the guess was counted. */
export type LoginAccount = Pick<
  User,
  | "id"
  | "email"
  | "name"
  | "role"
  | "passwordHash"
  | "passwordChangedAt"
  | "emailVerified"
  | "mfaEnabled"
  | "mfaSecret"
  | "deletionAt"
>;

/** Its row, as `ACCOUNT_COLUMNS` of `users as u` give it; the id is null where there is no account. */
export type AccountRow = {
  id: string | null;
  email: string;
  name: string;
  role: Role;
  password_hash: string;
  password_changed_at: string;
  email_verified: boolean;
  mfa_secret: string | null;
  deletion_at: string | null;
};

export const ACCOUNT_COLUMNS = `u.id, u.email, u.name, u.role, u.password_hash, u.password_changed_at,
     u.email_verified_at is not null as email_verified, u.mfa_secret, u.deletion_at`;

export function toLoginAccount(row: AccountRow): LoginAccount | undefined {
  if (row.id === null) return undefined;
  return {
    id: row.id,
    email: row.email,
    name: row.name,
    role: row.role,
    passwordHash: row.password_hash,
    passwordChangedAt: new Date(row.password_changed_at),
    emailVerified: row.email_verified,
    mfaEnabled: row.mfa_secret !== null,
    mfaSecret: row.mfa_secret,
    deletionAt: row.deletion_at === null ? null : new Date(row.deletion_at),
  };
}
