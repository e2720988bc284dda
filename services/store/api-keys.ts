import { defineEntity, type InferEntity, p } from "@mikro-orm/core";
import type { ListAllApiKeysRequest } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { searchSpellings } from "../platform/rpc/typed-text.ts";
import { readPartialPage } from "./filtered-page.ts";
import { type Page, type PageRequest, readPage, rowsWhere } from "./page.ts";
import { folded } from "./search-indexes.ts";
import type { CallerUser } from "./sessions.ts";
import { type ClockedDb, type Db, firstRow, type HotDb, oneRow, prepared } from "./statement.ts";
import { PROFILE_COLUMNS, User } from "./users.ts";

/** An API key of a user. The key itself is never stored: see `platform/gate/api-key.ts`. */
export const ApiKey = defineEntity({
  name: "ApiKey",
  tableName: "api_keys",
  properties: {
    id: p.uuid().primary(),
    user: () => p.manyToOne(User).ref(),
    digest: p.blob().$type<Buffer>().hidden(), // SHA-256 of the key
    hint: p.string(),
    name: p.string(),
    models: p.array().nullable(), // null: all
    requestsPerMinute: p.integer().nullable(), // null: the general limits
    createdAt: p.datetime(),
    createdBy: p.uuid(), // an administrator, for a service account
    expiresAt: p.datetime().nullable(),
    lastUsedAt: p.datetime().nullable(),
    lastUsedIp: p.string().nullable(),
    revokedAt: p.datetime().nullable(),
  },
});
export interface ApiKey extends InferEntity<typeof ApiKey> {}

/** Whether key `k` is neither revoked nor expired at a time. */
const IS_ACTIVE = "k.revoked_at is null and (k.expires_at is null or k.expires_at > :now)";
/**
 * Whether key `k` of user `t` may be used. The keys of a suspended account, or of one whose
 * deletion has been requested, become usable again with the account.
 */
export const IS_USABLE = `${IS_ACTIVE} and t.deletion_at is null and t.suspended_at is null`;

/** A usable key, as read for every request that uses it. */
export type CallerKey = Pick<ApiKey, "id" | "models" | "requestsPerMinute" | "lastUsedAt">;

/** A usable key and its owner. */
export type FoundKey = { user: CallerUser; key: CallerKey; isService: boolean };

type FoundRow = CallerUser &
  Omit<CallerKey, "id"> & { keyId: string; digest: string; isService: boolean };

const findUsable = prepared<{ digests: string[]; now: Date }, FoundRow>(
  "find_usable_keys",
  `select k.id as "keyId", encode(k.digest, 'hex') as digest, k.models, k.requests_per_minute as "requestsPerMinute",
       k.last_used_at as "lastUsedAt", t.is_service as "isService", t.password_changed_at as "passwordChangedAt",
       t.mfa_confirmed_at is not null as "mfaConfirmed", ${PROFILE_COLUMNS}
     from api_keys k join users t on t.id = k.user_id
     where k.digest = any(array(select decode(d, 'hex') from unnest(:digests::text[]) as d)) and ${IS_USABLE}`,
);

/**
 * Reads the usable keys among the given ones, with their owners, in one prepared statement.
 * @param digests in hexadecimal
 * @returns the usable keys by digest
 */
export async function findUsableKeys(
  db: HotDb,
  digests: string[],
  now: Date,
): Promise<Map<string, FoundKey>> {
  const rows = await findUsable(db, { digests, now });
  const found = rows.map(({ keyId: id, digest, isService, ...row }) => {
    const { models, requestsPerMinute, lastUsedAt, ...user } = row;
    return [
      digest,
      { user, key: { id, models, requestsPerMinute, lastUsedAt }, isService },
    ] as const;
  });
  return new Map(found);
}

/** A key as its owner sees it. */
export type ListedKey = Omit<ApiKey, "user" | "digest" | "createdBy" | "revokedAt">;

const LISTED = `k.id, k.name, k.hint, k.models, k.requests_per_minute as "requestsPerMinute",
  k.created_at as "createdAt", k.expires_at as "expiresAt", k.last_used_at as "lastUsedAt",
  k.last_used_ip as "lastUsedIp"`;

/** Lists the active keys of a user, newest first. */
export const listActiveKeys = ({ em }: Db, userId: string, now: Date): Promise<ListedKey[]> =>
  em.execute(
    `select ${LISTED} from api_keys k where k.user_id = :userId and ${IS_ACTIVE} order by k.id desc`,
    { userId, now },
  );

/** Counts the active keys of a user. Lock the user first if the number must not change. */
export async function countActiveKeys(db: Db, userId: string, now: Date): Promise<number> {
  const { keys } = await oneRow<{ keys: number }>(
    db,
    `select count(*)::int as keys from api_keys k where k.user_id = :userId and ${IS_ACTIVE}`,
    { userId, now },
  );
  return keys;
}

/** How people and the audit log identify a key. */
export type NamedKey = Pick<ApiKey, "id" | "name" | "hint">;

/**
 * Revokes an active key of a user.
 * @returns undefined if the user has no such key
 */
export const revokeKey = (
  db: ClockedDb,
  id: string,
  userId: string,
): Promise<NamedKey | undefined> =>
  firstRow(
    db,
    `update api_keys as k set revoked_at = :now where k.id = :id and k.user_id = :userId and ${IS_ACTIVE}
     returning k.id, k.name, k.hint`,
    { id, userId, now: db.clock.now() },
  );

/** Revokes all active keys of a user. Lock the user first. */
export const revokeKeysOf = ({ em, clock }: ClockedDb, userId: string): Promise<NamedKey[]> =>
  em.execute(
    `update api_keys as k set revoked_at = :now where k.user_id = :userId and ${IS_ACTIVE}
     returning k.id, k.name, k.hint`,
    { userId, now: clock.now() },
  );

/**
 * Revokes the keys of all users.
 * @returns how many were active
 */
export async function revokeAllKeys(db: Db, now: Date): Promise<number> {
  const { revoked } = await oneRow<{ revoked: number }>(
    db,
    `with revoked as (update api_keys as k set revoked_at = :now where ${IS_ACTIVE} returning k.id)
     select count(*)::int as revoked from revoked`,
    { now },
  );
  return revoked;
}

/** A use of a key. */
export type KeyUse = { id: string; at: Date; ip: string };

/** Records when and from where keys were last used. Skips rows that others have locked. */
export async function updateLastUsed({ em }: Db, uses: KeyUse[]): Promise<void> {
  await em.execute(
    `with due as (
       select k.id, v.at, v.ip from jsonb_to_recordset(:uses::jsonb) as v (id uuid, at timestamptz, ip text)
       join api_keys k on k.id = v.id where k.last_used_at is null or k.last_used_at < v.at
       for no key update of k skip locked)
     update api_keys as k set last_used_at = due.at, last_used_ip = due.ip from due where k.id = due.id`,
    { uses: JSON.stringify(uses) },
  );
}

/** A key as administrators see it. */
export type AdminKey = ListedKey & Pick<ApiKey, "createdBy" | "revokedAt"> & { userId: string };

const ADMIN_COLUMNS = `${LISTED.replaceAll("k.", "t.")}, t.user_id as "userId", t.created_by as "createdBy",
  t.revoked_at as "revokedAt"`;

/** Finds one key. */
export const findAdminKey = (db: Db, id: string) =>
  firstRow<AdminKey>(db, `select ${ADMIN_COLUMNS} from api_keys t where t.id = :id`, { id });

/** Filter for keys. `search` is part of the name or hint, case-insensitive. */
export type KeyFilter = Pick<ListAllApiKeysRequest, "userId" | "search" | "state">;

/** Condition for each state. A revoked key counts as revoked even if it has expired. */
const STATES: Record<string, string> = {
  active: IS_ACTIVE.replaceAll("k.", "t."),
  expired: "t.revoked_at is null and t.expires_at <= :now",
  revoked: "t.revoked_at is not null",
};

/**
 * Lists keys, newest first. Cursor pages of a search or state may be short, because these filters
 * have no index.
 */
export function listAllKeys(
  db: ClockedDb,
  filter: KeyFilter,
  request: PageRequest,
): Promise<Page<AdminKey>> {
  const { userId, search, state } = filter;
  const terms = search === undefined ? [] : searchSpellings(search);
  const isIn = (text: string) => (_term: string, i: number) =>
    `strpos(${folded(text)}, ${folded(`:term${i}`)}) > 0`;
  const conditions = {
    userId: "t.user_id = :userId",
    search: [...terms.map(isIn("t.name")), ...terms.map(isIn("t.hint"))].join(" or "),
    state: STATES[state ?? ""] ?? "true",
  };
  const values = Object.fromEntries(terms.map((term, i) => [`term${i}`, term]));
  const rows = rowsWhere(conditions, { userId, search, state, ...values, now: db.clock.now() });
  const query = { columns: ADMIN_COLUMNS, from: "api_keys", ...rows };
  const hasIndex = userId !== undefined || (search === undefined && state === undefined);
  return hasIndex ? readPage(db, query, request) : readPartialPage(db, query, request);
}
