import type { SqlEntityManager } from "@mikro-orm/postgresql";
import { LOCKS } from "../store/locks.ts";
import { digestsOf, dropLinkOf, GENESIS, type Head, linkOf } from "./chain.ts";

/** Events sealed at once. */
const BATCH = 1_000;

/**
 * Seals the events that have been committed since, in the order of their ids. Writers leave a row in `audit_unsealed`,
 * which becomes visible with their commit: however late that is, the event is in the next batch.
 * @returns the new head, and whether there may be more to seal; undefined when there was nothing, or another process is at it
 */
export async function sealEvents(em: SqlEntityManager, now: Date): Promise<(Head & { more: boolean }) | undefined> {
  const waiting = await em.execute<unknown[]>("select 1 from audit_unsealed limit 1");
  if (waiting.length === 0) return undefined;
  return em.transactional(async () => {
    const last = await lockChain(em);
    if (!last) return undefined;
    const taken = await em.execute<{ id: string }[]>(
      `delete from audit_unsealed where event_id in (select event_id from audit_unsealed order by event_id limit ?)
       returning event_id as id`,
      [BATCH],
    );
    if (taken.length === 0) return undefined;
    const ids = taken.map(({ id }) => id).sort();
    const digests = await digestsOf(em, ids);
    const links: string[] = [];
    for (const id of ids) links.push(linkOf(links.at(-1) ?? last.hash, id, digests.get(id) ?? ""));
    return { ...(await append(em, last, now, { ids, links })), more: ids.length === BATCH };
  });
}

/** Writes into the chain that events below an id are gone for good reason. Call it in the transaction that drops them. */
export async function sealDrop(em: SqlEntityManager, now: Date, last: Head, droppedBelow: string): Promise<void> {
  await append(em, last, now, { ids: [], links: [dropLinkOf(last.hash, droppedBelow)], droppedBelow });
}

/** Takes the end of the chain for this transaction. @returns it; undefined while somebody else has it */
export async function lockChain(em: SqlEntityManager): Promise<Head | undefined> {
  const [lock] = await em.execute<{ mine: boolean }[]>("select pg_try_advisory_xact_lock(?) as mine", [
    LOCKS.sealAudit,
  ]);
  return lock?.mine ? ((await headOf(em)) ?? { position: 0, hash: GENESIS }) : undefined;
}

/** The end of the chain; undefined while nothing has been sealed. */
export async function headOf(em: SqlEntityManager): Promise<Head | undefined> {
  const [row] = await em.execute<{ position: string; hash: string }[]>(
    "select position, encode(head, 'hex') as hash from audit_seals order by position desc limit 1",
  );
  return row && { position: Number(row.position), hash: row.hash };
}

type Sealed = { ids: string[]; links: string[]; droppedBelow?: string };

async function append(
  em: SqlEntityManager,
  last: Head,
  now: Date,
  { ids, links, droppedBelow }: Sealed,
): Promise<Head> {
  const head = { position: last.position + 1, hash: links.at(-1) ?? last.hash };
  await em.execute(
    `insert into audit_seals (position, ids, links, dropped_below, head, sealed_at)
     values (?, ?::uuid[], decode(?, 'hex'), ?, decode(?, 'hex'), ?)`,
    [head.position, `{${ids.join(",")}}`, links.join(""), droppedBelow ?? null, head.hash, now],
  );
  return head;
}
