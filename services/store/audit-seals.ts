import { type Db, firstRow, oneRow, returnsRow } from "./statement.ts";
import { LOCKS } from "./store.ts";

/** End of the hash chain: position of the last seal and hash of its last link, in hex. */
export type Head = { position: number; hash: string };

/**
 * A seal: the ids of the events it covers, in order, and one link of the chain per event, in hex.
 */
export type Seal = {
  position: number;
  ids: string[];
  links: string[];
  /** Only in a retention seal, which covers no events: events below this id were dropped. */
  droppedBelow: string | null;
  sealedAt: Date;
  /** The last link, or that of the previous seal if this one has none. */
  head: string;
  /** MAC of the seal, in hex; null in seals of releases before MACs. */
  mac: string | null;
};

export type SealHead = Omit<Seal, "ids" | "links">;

/** Whether there are unsealed events, or the last seal has no MAC. */
export const needsSeal = (db: Db): Promise<boolean> =>
  returnsRow(
    db,
    `(select 1 from audit_unsealed limit 1) union all
     select 1 from (select mac from audit_seals order by position desc limit 1) as last where mac is null`,
  );

/**
 * Reads the end of the chain and the number of unsealed events. A position is returned as text,
 * since a forged one may be any number.
 */
export const readChainState = (db: Db) =>
  oneRow<{ head: string | null; sealedAt: Date | null; unsealed: number }>(
    db,
    `select last.*, unsealed from (select count(*)::int as unsealed from audit_unsealed) as waiting
     left join (select position || ':' || encode(head, 'hex') as head, sealed_at as "sealedAt"
       from audit_seals order by position desc limit 1) as last on true`,
  );

/**
 * Locks the chain until the transaction ends.
 * @returns false if another process holds the lock
 */
export const lockChain = (db: Db): Promise<boolean> =>
  returnsRow(db, "select 1 where pg_try_advisory_xact_lock(:sealAudit)", LOCKS);

/** Columns of `SealHead` from seal `s`. */
export const HEAD_COLUMNS = `s.position::float8 as position, s.dropped_below as "droppedBelow", encode(s.head, 'hex') as head,
  s.sealed_at as "sealedAt", encode(s.mac, 'hex') as mac`;

/** The last seal; undefined if nothing has been sealed yet. */
export const readLastSeal = (db: Db) =>
  firstRow<SealHead>(
    db,
    `select ${HEAD_COLUMNS} from audit_seals s order by s.position desc limit 1`,
  );

/** The end of the chain; undefined if nothing has been sealed yet. */
export async function headOf(db: Db): Promise<Head | undefined> {
  const last = await readLastSeal(db);
  return last && { position: last.position, hash: last.head };
}

/** Whether the chain still contains a head. */
export const hasHead = (db: Db, head: Head): Promise<boolean> =>
  returnsRow(
    db,
    "select 1 from audit_seals where position = :position and head = decode(:hash, 'hex')",
    head,
  );

/**
 * Removes the oldest events from the list of unsealed ones.
 * @returns their ids in order
 */
export async function takeUnsealed({ em }: Db, limit: number): Promise<string[]> {
  const rows = await em.execute<{ id: string }[]>(
    `delete from audit_unsealed where event_id in (select event_id from audit_unsealed order by event_id limit :limit)
     returning event_id as id`,
    { limit },
  );
  return rows.map(({ id }) => id).sort();
}

/**
 * SHA-256 of all columns of event `e`, in hex: the same on every server, whatever its
 * settings.
 */
const DIGEST = `encode(sha256(convert_to(row(e.id, e.event, e.outcome, e.user_id, e.actor_id, e.ip, e.user_agent,
  e.request_id, e.details, extract(epoch from e.created_at))::text, 'UTF8')), 'hex')`;

/** An event to be sealed: the digest of its row, the time in the row, and its name. */
export type SealedEvent = { digest: string; createdAt: Date; event: string };

/**
 * Finds events by id. The ids are passed as a list, because with a join the planner might read the
 * whole log.
 */
export async function findSealedEvents(
  { em }: Db,
  ids: string[],
): Promise<Map<string, SealedEvent>> {
  const rows = await em.execute<(SealedEvent & { id: string })[]>(
    `select e.id, ${DIGEST} as digest, e.created_at as "createdAt", e.event from audit_events e
     where e.id = any(array[:ids]::uuid[])`,
    { ids },
  );
  return new Map(rows.map(({ id, ...sealed }) => [id, sealed]));
}

/** Appends a seal. */
export async function insertSeal({ em }: Db, seal: Seal): Promise<void> {
  await em.execute(
    `insert into audit_seals (position, ids, links, dropped_below, head, sealed_at, mac)
     values (:position, array[:ids]::uuid[], decode(:chain, 'hex'), :droppedBelow, decode(:head, 'hex'), :sealedAt,
       decode(:mac, 'hex'))`,
    { ...seal, chain: seal.links.join("") },
  );
}
