import type { Call } from "../call.ts";
import type { Role } from "../store/user.ts";
import { ADMIN_USER_COLUMNS, type AdminUser, type AdminUserRow, adminUserOf, LOCK_JOIN } from "./admin-user.ts";
import { readFilteredPage, readPartialPage } from "./filtered-page.ts";
import { type Condition, type Page, type PageRequest, readPage, whereIf } from "./page.ts";

/** Which users. */
export type UserFilter = {
  /** Part of an address or a name, in any case. */
  search?: string | undefined;
  role?: Role | undefined;
  emailVerified?: boolean | undefined;
  locked?: boolean | undefined;
};

/** As the index `users_search` has it; what is searched for holds no line feed, so nothing matches across. */
const SEARCHED = "(lower(t.email) || chr(10) || lower(t.name))";
/** Characters that the index needs to find anything by, and those that are enough for it: more would only slow it. */
const TRIGRAM = 3;
const ENOUGH = 16;

/** Passwords and second factors that are locked; the latter go by users, which the planner can count. */
const LOCKED_PASSWORDS = "attempts l where l.kind = 'password' and l.locked_until > ?";
const LOCKED_FACTORS =
  "attempts l join users u on u.id = l.subject::uuid where l.kind = 'second-factor' and l.locked_until > ?";
const IS_LOCKED = `t.canonical_email in
  (select l.subject from ${LOCKED_PASSWORDS} union all select u.canonical_email from ${LOCKED_FACTORS})`;
const IS_NOT_LOCKED = `not exists (select from ${LOCKED_PASSWORDS} and l.subject = t.canonical_email)
  and not exists (select from ${LOCKED_FACTORS} and u.id = t.id)`;

/** Lists users, newest first. A page of a search for one or two characters may be short. @throws ServiceError VALIDATION_FAILED */
export async function listUsers(
  call: Pick<Call, "em" | "clock">,
  filter: UserFilter,
  request: PageRequest,
): Promise<Page<AdminUser>> {
  const now = call.clock.now();
  const source = { columns: ADMIN_USER_COLUMNS, from: "users", joins: LOCK_JOIN, where: conditions(filter, now) };
  const page = await readerFor(filter)<AdminUserRow>(call.em, source, request);
  return { ...page, items: page.items.map((row) => adminUserOf(row, now)) };
}

function readerFor({ search, locked }: UserFilter) {
  if (search !== undefined && [...search].length < TRIGRAM) return readPartialPage;
  return search !== undefined || locked ? readFilteredPage : readPage;
}

function conditions({ search, role, emailVerified, locked }: UserFilter, now: Date): (Condition | undefined)[] {
  const verified = emailVerified ? "t.email_verified_at is not null" : "t.email_verified_at is null";
  return [
    whereIf(role, "t.role = ?"),
    whereIf(emailVerified, verified, []),
    whereIf(locked, locked ? IS_LOCKED : IS_NOT_LOCKED, [now, now]),
    ...(search === undefined ? [] : matching(search)),
  ];
}

function matching(search: string): Condition[] {
  const start = [...search].slice(0, ENOUGH).join("");
  const pattern = `%${start.replace(/[\\%_]/g, "\\$&")}%`;
  const byIndex = { sql: `${SEARCHED} like lower(?)`, values: [pattern] };
  return start === search ? [byIndex] : [byIndex, { sql: `strpos(${SEARCHED}, lower(?)) > 0`, values: [search] }];
}
