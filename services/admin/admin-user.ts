import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { type AdminUser, findAdminUser } from "../store/admin-users.ts";

/** Reads one user. @throws ServiceError NOT_FOUND */
export async function readAdminUser(call: Pick<Call, "em">, id: string): Promise<AdminUser> {
  const user = await findAdminUser(call, id);
  if (!user) throw userNotFound();
  return user;
}

export function userNotFound(): ServiceError {
  return new ServiceError(Reason.NOT_FOUND, "There is no such user.");
}
