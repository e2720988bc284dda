import { type Db, LOCKS } from "./store.ts";

/** The end of the hash chain: the position of the last seal and the hash of its last link, in hex. */
export type Head = { position: number; hash: string };

/** A seal: the ids of the events it covers, in order, and one link of the chain for each, in hex. */
export type Seal = {
  position: number;
  ids: string[];
  links: string[];
  /** In a retention seal, which covers no events: events below this id were dropped. */
  droppedBelow: string | undefined;
  sealedAt: Date;
  /** The last link, or that of the seal before if there is none. */
  head: string;
  /** Authenticates the seal, in hex; undefined in seals of releases before MACs. */
  mac: string | undefined;
};

/** A seal without what it covers. */
export type SealHead = Omit<Seal, "ids" | "links">;

/** Whether events wait to be sealed, or the last seal has no MAC. */
export async function needsSeal({ em }: Db): Promise<boolean> {
  const rows = await em.execute<unknown[]>(
    `(select 1 from audit_unsealed limit 1) union all
     select 1 from (select mac from audit_seals order by position desc limit 1) as last where mac is null`,
  );
  return rows.length > 0;
}

/** Number of events that wait to be sealed. */
export async function countUnsealed({ em }: Db): Promise<number> {
  const [row] = await em.execute<{ count: string }[]>("select count(*) as count from audit_unsealed");
  return Number(row?.count);
}

/** State of the hash chain: its newest seal, and the number of events that wait to be sealed. */
export type ChainState = { head: string | null; sealedAt: Date | null; unsealed: number };

/** Reads the state of the hash chain. Positions are read as text, since a forged one may be any number. */
export async function readChainState(db: Db): Promise<ChainState> {
  const [[last], unsealed] = await Promise.all([
    db.em.execute<{ head: string; sealedAt: Date }[]>(
      `select position || ':' || encode(head, 'hex') as head, sealed_at as "sealedAt"
       from audit_seals order by position desc limit 1`,
    ),
    countUnsealed(db),
  ]);
  return { head: last?.head ?? null, sealedAt: last?.sealedAt ?? null, unsealed };
}

/** Locks the chain until the transaction ends. @returns false while another process holds it */
export async function lockChain({ em }: Db): Promise<boolean> {
  const [lock] = await em.execute<{ mine: boolean }[]>("select pg_try_advisory_xact_lock(?) as mine", [
    LOCKS.sealAudit,
  ]);
  return lock?.mine === true;
}

type SealRow = { position: string; below: string | null; head: string; sealedAt: Date; mac: string | null };

const HEAD_COLUMNS = `position, dropped_below as below, encode(head, 'hex') as head, sealed_at as "sealedAt",
  encode(mac, 'hex') as mac`;

const toSealHead = ({ position, below, head, sealedAt, mac }: SealRow): SealHead => ({
  position: Number(position),
  droppedBelow: below ?? undefined,
  head,
  sealedAt,
  mac: mac ?? undefined,
});

/** The last seal; undefined while nothing has been sealed. */
export async function readLastSeal({ em }: Db): Promise<SealHead | undefined> {
  const [row] = await em.execute<SealRow[]>(`select ${HEAD_COLUMNS} from audit_seals order by position desc limit 1`);
  return row && toSealHead(row);
}

/** The end of the chain; undefined while nothing has been sealed. */
export async function headOf(db: Db): Promise<Head | undefined> {
  const last = await readLastSeal(db);
  return last && { position: last.position, hash: last.head };
}

/** The hash of the head that a seal made; undefined if there is no such seal. */
export async function hashAt({ em }: Db, position: number): Promise<string | undefined> {
  const [row] = await em.execute<{ hash: string }[]>(
    "select encode(head, 'hex') as hash from audit_seals where position = ?",
    [position],
  );
  return row?.hash;
}

/** Takes the oldest events off the list of unsealed ones. @returns their ids in order */
export async function takeUnsealed({ em }: Db, limit: number): Promise<string[]> {
  const rows = await em.execute<{ id: string }[]>(
    `delete from audit_unsealed where event_id in (select event_id from audit_unsealed order by event_id limit ?)
     returning event_id as id`,
    [limit],
  );
  return rows.map(({ id }) => id).sort();
}

/** SHA-256 of event `e`, every column of it, in hex: the same text on every server, whatever its settings. */
const DIGEST = `encode(sha256(convert_to(row(e.id, e.event, e.outcome, e.user_id, e.actor_id, e.ip, e.user_agent,
  e.request_id, e.details, extract(epoch from e.created_at))::text, 'UTF8')), 'hex')`;

/** Digests of events by id. The ids are listed, since a join could make the planner read the whole log. */
export async function digestsOf({ em }: Db, ids: string[]): Promise<Map<string, string>> {
  const rows = await em.execute<{ id: string; digest: string }[]>(
    `select e.id, ${DIGEST} as digest from audit_events e where e.id = any(?::uuid[])`,
    [`{${ids.join(",")}}`],
  );
  return new Map(rows.map(({ id, digest }) => [id, digest]));
}

/** Appends a seal. */
export async function insertSeal({ em }: Db, seal: Seal): Promise<void> {
  const { position, ids, links, droppedBelow = null, head, sealedAt, mac = null } = seal;
  await em.execute(
    `insert into audit_seals (position, ids, links, dropped_below, head, sealed_at, mac)
     values (?, ?::uuid[], decode(?, 'hex'), ?, decode(?, 'hex'), ?, decode(?, 'hex'))`,
    [position, `{${ids.join(",")}}`, links.join(""), droppedBelow, head, sealedAt, mac],
  );
}

/**
 * Reads seals in order. @param after a seal's raw position, which may exceed what a number holds exactly
 * @returns each seal with its raw position
 */
export async function readSeals(
  { em }: Db,
  after: string | undefined,
  limit: number,
): Promise<(Seal & { rawPosition: string })[]> {
  const rows = await em.execute<(SealRow & { ids: string; links: string })[]>(
    `select ${HEAD_COLUMNS}, array_to_string(ids, ',') as ids, encode(links, 'hex') as links
     from audit_seals ${after === undefined ? "" : "where position > ?"} order by position limit ?`,
    [...(after === undefined ? [] : [after]), limit],
  );
  return rows.map(({ ids, links, ...row }) => ({
    ...toSealHead(row),
    rawPosition: row.position,
    ids: ids ? ids.split(",") : [],
    links: links.match(/.{64}/g) ?? [],
  }));
}

/** Reads the seals that say that retention has dropped events. */
export function readDropSeals({ em }: Db): Promise<{ droppedBelow: string; sealedAt: Date }[]> {
  return em.execute(
    `select dropped_below as "droppedBelow", sealed_at as "sealedAt" from audit_seals
     where cardinality(ids) = 0 and dropped_below is not null`,
  );
}

/** Ids of events below an id, in order. */
export async function findBelow({ em }: Db, id: string, limit: number): Promise<string[]> {
  const rows = await em.execute<{ id: string }[]>("select id from audit_events where id < ? order by id limit ?", [
    id,
    limit,
  ]);
  return rows.map((row) => row.id);
}

/** Events that several seals cover, each with the last of these seals. */
export async function findSealedTwice({ em }: Db, limit: number): Promise<{ id: string; position: number }[]> {
  const rows = await em.execute<{ id: string; position: string }[]>(
    `select id, max(position) as position from audit_seals, unnest(ids) as id group by id having count(*) > 1
     order by id limit ?`,
    [limit],
  );
  return rows.map(({ id, position }) => ({ id, position: Number(position) }));
}

/** Number of events, and of those that wait to be sealed. */
export async function countEvents({ em }: Db): Promise<{ events: number; unsealed: number }> {
  const [row] = await em.execute<{ events: string; unsealed: string }[]>(
    `select (select count(*) from audit_events) as events,
       (select count(*) from audit_unsealed u join audit_events e on e.id = u.event_id) as unsealed`,
  );
  return { events: Number(row?.events), unsealed: Number(row?.unsealed) };
}

/** Ids of events that are neither sealed nor waiting to be: they were not inserted by `insertAuditEvent`. */
export async function findUnrecorded({ em }: Db, limit: number): Promise<string[]> {
  const rows = await em.execute<{ id: string }[]>(
    `select id from audit_events except select unnest(ids) from audit_seals except select event_id from audit_unsealed
     limit ?`,
    [limit],
  );
  return rows.map(({ id }) => id);
}
