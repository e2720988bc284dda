import type { ListUsersRequest } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { searchSpellings } from "../platform/rpc/typed-text.ts";
import type { Recipient } from "./emails.ts";
import { readFilteredPage, readPartialPage } from "./filtered-page.ts";
import {
  countMatches,
  type Order,
  type Page,
  type PageRequest,
  readOrderedPage,
  readPage,
  readTimeOrderedPage,
  rowsWhere,
  type TimeOrder,
  type Total,
} from "./page.ts";
import type { Person } from "./person.ts";
import { folded, searchedText } from "./search-indexes.ts";
import { type ClockedDb, type Db, firstRow, oneRow } from "./statement.ts";
import { LOCKS } from "./store.ts";
import { PROFILE_COLUMNS, type Profile, SERVICE_DOMAIN, type User } from "./users.ts";

/** A user as shown to administrators. */
export type AdminUser = Profile &
  Pick<User, "lastLoginAt" | "suspendedAt"> & {
    deletionDate: Date | null;
    lockedUntil: Date | null;
    serviceAccount: true | null;
  };

const COLUMNS = `${PROFILE_COLUMNS}, t.last_login_at as "lastLoginAt", t.suspended_at as "suspendedAt", t.deletion_at as "deletionDate",
  greatest(a.locked_until, f.locked_until) as "lockedUntil", nullif(t.is_service, false) as "serviceAccount"`;

/** Password locks are stored by address, second-factor locks by user id. */
const JOIN_LOCKS = `left join attempts a on a.kind = 'password' and a.subject = t.canonical_email
  left join attempts f on f.kind = 'second-factor' and f.subject = t.id::text`;

/** Finds one user. */
export const findAdminUser = (db: Db, id: string) =>
  firstRow<AdminUser>(db, `select ${COLUMNS} from users t ${JOIN_LOCKS} where t.id = :id`, { id });

/** Filter for users. `search` is part of the address or name, case-insensitive. */
export type UserFilter = Pick<
  ListUsersRequest,
  "search" | "role" | "emailVerified" | "locked" | "serviceAccount" | "suspended" | "mfaEnabled"
>;

/** The indexed expression of `users_search_folded`. */
const SEARCHED = searchedText("t.");
/** Minimum number of characters that the index can search for. */
const MIN_INDEXED_CHARACTERS = 3;
/**
 * Maximum number of characters to search for in the index. By then it finds few rows; more would
 * only slow it down.
 */
const MAX_INDEXED_CHARACTERS = 16;

/**
 * Conditions for locks. Locked second factors are joined with users so that the planner can
 * estimate their number.
 */
const LOCKED_PASSWORDS = "attempts l where l.kind = 'password' and l.locked_until > :now";
const LOCKED_OWNERS =
  "attempts l join users u on u.canonical_email = l.subject where l.kind = 'password' and l.locked_until > :now";
const LOCKED_FACTORS =
  "attempts l join users u on u.id = l.subject::uuid where l.kind = 'second-factor' and l.locked_until > :now";
const IS_LOCKED = `t.canonical_email in
  (select l.subject from ${LOCKED_PASSWORDS} union all select u.canonical_email from ${LOCKED_FACTORS})`;
const IS_NOT_LOCKED = `not exists (select from ${LOCKED_PASSWORDS} and l.subject = t.canonical_email)
  and not exists (select from ${LOCKED_FACTORS} and u.id = t.id)`;

/** There are few suspended users, and a table lists them. */
const IS_SUSPENDED = "t.id in (select user_id from suspended_users)";

/** There are few service accounts, and the search index finds them by their domain. */
const IS_SERVICE = `t.is_service and ${SEARCHED} like ${folded(`'%@${SERVICE_DOMAIN}%'`)}`;

/** Number of users: exact up to 10,000. */
export const countUsers = (db: Db): Promise<Total> =>
  countMatches(db, { columns: "", from: "users", where: "true", values: {} });

/** Users who cannot sign in because of failed attempts. */
export type LockedUsers = {
  count: number;
  /** The users whose locks end last. */
  users: Person[];
  /** When the last lock ends; null if there is none. */
  until: Date | null;
};

/**
 * Counts the users who cannot sign in because of failed attempts, and names some of them.
 * @param limit number of users to name
 */
export const readLockedUsers = (db: ClockedDb, limit: number): Promise<LockedUsers> =>
  oneRow(
    db,
    `with locks as (
       select u.id, l.locked_until from ${LOCKED_OWNERS}
       union all select u.id, l.locked_until from ${LOCKED_FACTORS}),
     locked as (select id, max(locked_until) as until from locks group by id),
     named as (
       select l.until, jsonb_build_object('id', u.id, 'name', u.name, 'email', u.email) as person
       from (select * from locked order by until desc, id limit :limit) as l join users u on u.id = l.id)
     select count(*)::int as count, max(until) as until,
       coalesce((select jsonb_agg(person order by until desc, person->>'id') from named), '[]') as users
     from locked`,
    { now: db.clock.now(), limit },
  );

const indexedPartOf = (term: string): string => [...term].slice(0, MAX_INDEXED_CHARACTERS).join("");

/**
 * The condition for one term: the index finds its first characters; a longer term is also compared
 * in full.
 */
function containsTerm(term: string, i: number): string {
  const isFound = `${SEARCHED} like ${folded(`:pattern${i}`)}`;
  if (indexedPartOf(term) === term) return isFound;
  return `${isFound} and strpos(${SEARCHED}, ${folded(`:term${i}`)}) > 0`;
}

function valuesOf(term: string, i: number): Record<string, string> {
  const pattern = `%${indexedPartOf(term).replace(/[\\%_]/g, "\\$&")}%`;
  return { [`pattern${i}`]: pattern, [`term${i}`]: term };
}

/** Orders by name, as in requests. */
const ORDERS: Record<string, Order> = {
  createdAt: { column: "id", descending: false }, // ids begin with the time
  email: { column: "canonical_email", descending: false },
  "-email": { column: "canonical_email", descending: true },
};

/**
 * Order by the last sign-in. It has no index: with one, every sign-in would write all indexes of
 * the user's row, which takes 0.6 ms. Instead, a page takes 0.2 to 0.6 s with a million users.
 */
const BY_SIGN_IN = {
  time: "coalesce(t.last_login_at, '-infinity'::timestamptz)",
  timeOf: ({ lastLoginAt }: AdminUser) => lastLoginAt,
};
const TIME_ORDERS: Record<string, TimeOrder<AdminUser>> = {
  lastLoginAt: { ...BY_SIGN_IN, descending: false },
  "-lastLoginAt": { ...BY_SIGN_IN, descending: true },
};

/**
 * Lists users, newest first or in another order. Cursor pages of a search for one or two characters
 * may be short.
 * @throws ServiceError VALIDATION_FAILED for a cursor from another order, or one whose row no
 * longer exists
 */
export async function listUsers(
  db: ClockedDb,
  filter: UserFilter,
  request: PageRequest & { sort?: string | undefined },
): Promise<Page<AdminUser>> {
  const { search, role, emailVerified, locked, serviceAccount, suspended, mfaEnabled } = filter;
  const terms = search === undefined ? [] : searchSpellings(search);
  const conditions = {
    role: "t.role = :role",
    emailVerified: `t.email_verified_at is ${emailVerified ? "not null" : "null"}`,
    locked: locked ? IS_LOCKED : IS_NOT_LOCKED,
    serviceAccount: serviceAccount ? IS_SERVICE : "not t.is_service",
    suspended: suspended ? IS_SUSPENDED : "t.suspended_at is null",
    mfaEnabled: `t.mfa_secret is ${mfaEnabled ? "not null" : "null"}`,
    search: terms.map(containsTerm).join(" or "),
  };
  const values = {
    role,
    emailVerified,
    locked,
    serviceAccount,
    suspended,
    mfaEnabled,
    search,
    ...Object.assign({}, ...terms.map(valuesOf)),
  };
  const rows = rowsWhere(conditions, { ...values, now: db.clock.now() });
  const query = { columns: COLUMNS, from: "users", joins: JOIN_LOCKS, ...rows };
  const order = ORDERS[request.sort ?? ""];
  if (order) return readOrderedPage(db, query, request, order);
  const timeOrder = TIME_ORDERS[request.sort ?? ""];
  if (timeOrder) return readTimeOrderedPage(db, query, request, timeOrder);
  if (terms.some((term) => [...term].length < MIN_INDEXED_CHARACTERS))
    return readPartialPage(db, query, request);
  return search !== undefined || locked || serviceAccount
    ? readFilteredPage(db, query, request)
    : readPage(db, query, request);
}

/**
 * Creates an administrator, or promotes the account with this address and cancels its deletion and
 * suspension. An account whose address was never verified gets the given password. Concurrent calls
 * create one account.
 * @returns undefined if the account is already an administrator
 */
export const upsertAdmin = (
  db: Db,
  admin: Pick<User, "id" | "email" | "canonicalEmail" | "passwordHash">,
  now: Date,
): Promise<(Recipient & { isCreated: boolean; hasPassword: boolean }) | undefined> =>
  firstRow(
    db,
    `insert into users as u (id, email, canonical_email, name, role, password_hash, password_changed_at,
       email_verified_at, terms_accepted_at, created_at, updated_at)
     values (:id, :email, :canonicalEmail, 'Administrator', 'admin', :passwordHash, :now, :now, :now, :now, :now)
     on conflict (canonical_email) do update set role = 'admin', updated_at = excluded.updated_at, deletion_at = null,
       suspended_at = null,
       password_hash = case when u.email_verified_at is null then excluded.password_hash else u.password_hash end,
       has_password = u.has_password or u.email_verified_at is null,
       password_changed_at =
         case when u.email_verified_at is null then excluded.password_changed_at else u.password_changed_at end,
       email_verified_at = coalesce(u.email_verified_at, excluded.email_verified_at)
       where u.role <> 'admin'
     returning u.id, u.email, u.name, u.xmax = 0 as "isCreated", u.password_hash = :passwordHash as "hasPassword"`, // xmax = 0: the row was inserted
    { ...admin, now },
  );

/**
 * Makes a user the first administrator, with a verified address, unless there is an administrator.
 * Run it in a transaction. Only one of several concurrent callers succeeds.
 */
export async function promoteFirstAdmin({ em }: Db, userId: string, now: Date): Promise<boolean> {
  await em.execute("select pg_advisory_xact_lock(:firstAdmin)", LOCKS);
  const promoted = await em.execute(
    `update users set role = 'admin', email_verified_at = :now, updated_at = :now
     where id = :userId and not exists (select from users where role = 'admin') returning id`,
    { userId, now },
  );
  return promoted.length > 0;
}
