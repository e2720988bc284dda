import { HEAD_COLUMNS, type Seal } from "./audit-seals.ts";
import type { Db } from "./statement.ts";

/**
 * Keeps retention from dropping a month until the transaction ends. Call it first, because the
 * snapshot begins after it.
 */
export async function holdMonths({ em }: Db): Promise<void> {
  await em.execute("lock table audit_events in access share mode");
}

/**
 * Reads seals in order.
 * @param after raw position of a seal, which may exceed what a number represents exactly
 * @returns each seal with its raw position
 */
export async function readSeals(
  { em }: Db,
  after: string | null,
  limit: number,
): Promise<(Seal & { rawPosition: string })[]> {
  const rows = await em.execute<(Seal & { rawPosition: string; chain: string })[]>(
    `select ${HEAD_COLUMNS}, s.position::text as "rawPosition", s.ids::text[] as ids, encode(s.links, 'hex') as chain
     from audit_seals s where ?::bigint is null or s.position > ?::bigint order by s.position limit ?`,
    [after, after, limit],
  );
  return rows.map(({ chain, ...row }) => ({ ...row, links: chain.match(/.{64}/g) ?? [] }));
}

/** Reads the seals that record that retention has dropped events. */
export function readDropSeals({ em }: Db): Promise<{ droppedBelow: string; sealedAt: Date }[]> {
  return em.execute(
    `select dropped_below as "droppedBelow", sealed_at as "sealedAt" from audit_seals
     where cardinality(ids) = 0 and dropped_below is not null`,
  );
}

/** Ids of events below the given id, in order. */
export async function findBelow({ em }: Db, id: string, limit: number): Promise<string[]> {
  const rows = await em.execute<{ id: string }[]>(
    "select id from audit_events where id < ? order by id limit ?",
    [id, limit],
  );
  return rows.map((row) => row.id);
}

/** Events covered by several seals, each with the last of these seals. */
export function findSealedTwice(
  { em }: Db,
  limit: number,
): Promise<{ id: string; position: number }[]> {
  return em.execute(
    `select id, max(position)::float8 as position from audit_seals, unnest(ids) as id group by id having count(*) > 1
     order by id limit ?`,
    [limit],
  );
}

/** Number of events, and how many of them are unsealed. */
export async function countEvents({ em }: Db): Promise<{ events: number; unsealed: number }> {
  const [counts = { events: 0, unsealed: 0 }] = await em.execute<
    { events: number; unsealed: number }[]
  >(
    `select (select count(*)::float8 from audit_events) as events,
       (select count(*)::float8 from audit_unsealed u join audit_events e on e.id = u.event_id) as unsealed`,
  );
  return counts;
}

/**
 * Ids of events that are neither sealed nor waiting to be sealed: they were not inserted by
 * `insertAuditEvent`.
 */
export async function findUnrecorded({ em }: Db, limit: number): Promise<string[]> {
  const rows = await em.execute<{ id: string }[]>(
    `select id from audit_events except select unnest(ids) from audit_seals except select event_id from audit_unsealed
     limit ?`,
    [limit],
  );
  return rows.map(({ id }) => id);
}
