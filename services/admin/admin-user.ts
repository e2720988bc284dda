import type { SqlEntityManager } from "@mikro-orm/postgresql";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import type { Role } from "../store/user.ts";

/** A user as administrators see it. */
export type AdminUser = {
  id: string;
  email: string;
  name: string;
  bio?: string;
  role: Role;
  emailVerified: boolean;
  mfaEnabled: boolean;
  createdAt: Date;
  updatedAt: Date;
  locked: boolean;
  lastLoginAt?: Date;
  deletionDate?: Date;
};

/** The columns of an AdminUser, from users as `t`, with the locks joined by LOCK_JOIN. */
export const ADMIN_USER_COLUMNS = `t.id, t.email, t.name, t.bio, t.role, t.email_verified_at is not null as email_verified,
  t.mfa_secret is not null as mfa_enabled, t.created_at, t.updated_at, t.last_login_at, t.deletion_at,
  greatest(a.locked_until, f.locked_until) as locked_until`;

/** Joins the counters of the password, which counts by address, and of the second factor. */
export const LOCK_JOIN = `left join attempts a on a.kind = 'password' and a.subject = t.canonical_email
  left join attempts f on f.kind = 'second-factor' and f.subject = t.id::text`;

/** A row of ADMIN_USER_COLUMNS; times as text. */
export type AdminUserRow = {
  id: string;
  email: string;
  name: string;
  bio: string | null;
  role: Role;
  email_verified: boolean;
  mfa_enabled: boolean;
  created_at: string;
  updated_at: string;
  last_login_at: string | null;
  deletion_at: string | null;
  locked_until: string | null;
};

/** Reads a row. @param now decides whether a lock still holds */
export function adminUserOf(row: AdminUserRow, now: Date): AdminUser {
  return {
    id: row.id,
    email: row.email,
    name: row.name,
    ...(row.bio !== null && { bio: row.bio }),
    role: row.role,
    emailVerified: row.email_verified,
    mfaEnabled: row.mfa_enabled,
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
    locked: row.locked_until !== null && new Date(row.locked_until) > now,
    ...(row.last_login_at !== null && { lastLoginAt: new Date(row.last_login_at) }),
    ...(row.deletion_at !== null && { deletionDate: new Date(row.deletion_at) }),
  };
}

/** Reads one user. @throws ServiceError NOT_FOUND */
export async function readAdminUser(call: Pick<Call, "em" | "clock">, id: string): Promise<AdminUser> {
  const [row] = await call.em.execute<AdminUserRow[]>(
    `select ${ADMIN_USER_COLUMNS} from users t ${LOCK_JOIN} where t.id = ?`,
    [id],
  );
  if (!row) throw userNotFound();
  return adminUserOf(row, call.clock.now());
}

/** @throws ServiceError NOT_FOUND */
export async function requireUser(em: SqlEntityManager, id: string): Promise<void> {
  const rows = await em.execute<unknown[]>("select 1 from users where id = ?", [id]);
  if (rows.length === 0) throw userNotFound();
}

export function userNotFound(): ServiceError {
  return new ServiceError(Reason.NOT_FOUND, "There is no such user.");
}
