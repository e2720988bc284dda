import { hash } from "node:crypto";
import {
  digestsOf,
  type Head,
  hasUnsealed,
  headOf,
  insertSeal,
  lockChain,
  takeUnsealed,
} from "../store/audit-seals.ts";
import type { Db } from "../store/store.ts";

/** Events in one seal. */
const BATCH = 1_000;

/**
 * Seals the next events, in the order of their ids. Writers leave a row in `audit_unsealed`, which becomes visible with
 * their commit: however late that is, the event is in the next batch.
 * @returns the new head, and whether there may be more; undefined if there was nothing, or another process is sealing
 */
export async function sealEvents(db: Db, now: Date): Promise<(Head & { more: boolean }) | undefined> {
  if (!(await hasUnsealed(db))) return undefined;
  return db.em.transactional(async () => {
    const last = await beginSeal(db);
    const ids = last ? await takeUnsealed(db, BATCH) : [];
    if (!last || ids.length === 0) return undefined;
    const digests = await digestsOf(db, ids);
    const links: string[] = [];
    for (const id of ids) links.push(linkOf(links.at(-1) ?? last.hash, id, digests.get(id) ?? ""));
    const head = { position: last.position + 1, hash: links.at(-1) as string };
    await insertSeal(db, { position: head.position, ids, links, droppedBelow: undefined, head: head.hash }, now);
    return { ...head, more: ids.length === BATCH };
  });
}

/** Seals that retention drops the events below an id. Call it in the transaction that drops them. */
export async function sealDrop(db: Db, now: Date, last: Head, droppedBelow: string): Promise<void> {
  const head = dropLinkOf(last.hash, droppedBelow);
  await insertSeal(db, { position: last.position + 1, ids: [], links: [head], droppedBelow, head }, now);
}

/** Locks the chain until the transaction ends. @returns its end; undefined while another process holds it */
export async function beginSeal(db: Db): Promise<Head | undefined> {
  if (!(await lockChain(db))) return undefined;
  return (await headOf(db)) ?? { position: 0, hash: GENESIS };
}

/** The link before the first one. */
export const GENESIS = "0".repeat(64);

/** The link of an event: over the link before it, its id, and the digest of its row ("" where the row was gone already). */
export function linkOf(previous: string, id: string, digest: string): string {
  return hash("sha256", `${previous} ${id} ${digest}`, "hex");
}

/** The link that records that retention has dropped the events below an id. */
export function dropLinkOf(previous: string, droppedBelow: string): string {
  return hash("sha256", `${previous} dropped below ${droppedBelow}`, "hex");
}
