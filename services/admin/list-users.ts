import type { Call } from "../call.ts";
import { listAdminUsers, type UserFilter } from "../store/admin-users.ts";
import type { Page, PageRequest } from "../store/page.ts";
import { type AdminUser, toAdminUser } from "./admin-user.ts";

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
