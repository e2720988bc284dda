import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { type AdminUser, findAdminUser } from "../store/admin-users.ts";
import { User } from "../store/users.ts";

/** Reads one user. @throws ServiceError NOT_FOUND */
export async function readAdminUser(call: Pick<Call, "em">, id: string): Promise<AdminUser> {
  const user = await findAdminUser(call, id);
  if (!user) throw userNotFound();
  return user;
}

/** @throws ServiceError NOT_FOUND */
export async function requireUser({ em }: Pick<Call, "em">, id: string): Promise<void> {
  if ((await em.count(User, { id })) === 0) throw userNotFound();
}

export function userNotFound(): ServiceError {
  return new ServiceError(Reason.NOT_FOUND, "There is no such user.");
}
