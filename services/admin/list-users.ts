import type { Call } from "../call.ts";
import type { Role } from "../store/user.ts";
import { ADMIN_USER_COLUMNS, type AdminUser, type AdminUserRow, adminUserOf, LOCK_JOIN } from "./admin-user.ts";
import { type Condition, type Page, type PageRequest, readPage, when } from "./page.ts";
import { searchUsers } from "./search-users.ts";

/** Which users. */
export type UserFilter = {
  /** Part of an address or a name, in any case. */
  search?: string | undefined;
  role?: Role | undefined;
  emailVerified?: boolean | undefined;
  locked?: boolean | undefined;
};

/** Lists users, newest first. @throws Refusal VALIDATION_FAILED */
export async function listUsers(
  call: Pick<Call, "em" | "clock">,
  { search, ...filter }: UserFilter,
  request: PageRequest,
): Promise<Page<AdminUser>> {
  const now = call.clock.now();
  const source = { columns: ADMIN_USER_COLUMNS, from: "users", joins: LOCK_JOIN, where: conditions(filter, now) };
  const page = search
    ? await searchUsers<AdminUserRow>(call.em, source, search, request)
    : await readPage<AdminUserRow>(call.em, source, request);
  return { ...page, items: page.items.map((row) => adminUserOf(row, now)) };
}

function conditions({ role, emailVerified, locked }: UserFilter, now: Date): (Condition | undefined)[] {
  const verified = emailVerified ? "t.email_verified_at is not null" : "t.email_verified_at is null";
  const isLocked = "t.canonical_email in (select subject from attempts where kind = 'password' and locked_until > ?)";
  const isOpen = `not exists (select from attempts l
    where l.kind = 'password' and l.subject = t.canonical_email and l.locked_until > ?)`;
  return [when(role, "t.role = ?"), when(emailVerified, verified, []), when(locked, locked ? isLocked : isOpen, [now])];
}
