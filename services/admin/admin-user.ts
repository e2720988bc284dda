import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { type AdminUserRow, findAdminUser, listAdminUsers, type UserFilter } from "../store/admin-users.ts";
import type { Page, PageRequest } from "../store/page.ts";
import { User } from "../store/users.ts";

/** A user as administrators see it. */
export type AdminUser = Pick<AdminUserRow, "id" | "email" | "name" | "role" | "emailVerified" | "mfaEnabled"> & {
  bio?: string;
  createdAt: Date;
  updatedAt: Date;
  locked: boolean;
  lastLoginAt?: Date;
  deletionDate?: Date;
};

/** Reads a row. @param now decides whether a lock still holds */
export function toAdminUser(row: AdminUserRow, now: Date): AdminUser {
  const { bio, createdAt, updatedAt, lastLoginAt, deletionDate, lockedUntil, ...user } = row;
  return {
    ...user,
    ...(bio !== null && { bio }),
    createdAt: new Date(createdAt),
    updatedAt: new Date(updatedAt),
    locked: lockedUntil !== null && new Date(lockedUntil) > now,
    ...(lastLoginAt !== null && { lastLoginAt: new Date(lastLoginAt) }),
    ...(deletionDate !== null && { deletionDate: new Date(deletionDate) }),
  };
}

/** Reads one user. @throws ServiceError NOT_FOUND */
export async function readAdminUser(call: Pick<Call, "em" | "clock">, id: string): Promise<AdminUser> {
  const row = await findAdminUser(call, id);
  if (!row) throw userNotFound();
  return toAdminUser(row, call.clock.now());
}

/** @throws ServiceError NOT_FOUND */
export async function requireUser({ em }: Pick<Call, "em">, id: string): Promise<void> {
  if ((await em.count(User, { id })) === 0) throw userNotFound();
}

export function userNotFound(): ServiceError {
  return new ServiceError(Reason.NOT_FOUND, "There is no such user.");
}

/** Lists users, newest first. Pages of a search for one or two characters may be short. @throws ServiceError VALIDATION_FAILED */
export async function listUsers(
  call: Pick<Call, "em" | "clock">,
  filter: UserFilter,
  request: PageRequest,
): Promise<Page<AdminUser>> {
  const now = call.clock.now();
  const page = await listAdminUsers(call, filter, request, now);
  return { ...page, items: page.items.map((row) => toAdminUser(row, now)) };
}
