import { hash } from "node:crypto";
import type { Cipher } from "../crypto/cipher.ts";
import type { Head, SealedEvent, SealHead } from "../store/audit-seals.ts";
import {
  findSealedEvents,
  insertSeal,
  lockChain,
  needsSeal,
  readLastSeal,
  takeUnsealed,
} from "../store/audit-seals.ts";
import type { Db } from "../store/statement.ts";

/** Maximum number of events per seal. */
const BATCH = 1_000;

export type SealDeps = Db & { cipher: Pick<Cipher, "mac" | "isMac"> };

/**
 * Seals the next events, in id order. Writers add a row to `audit_unsealed`, which becomes visible
 * with their commit: however late that is, the event is included in the next batch. Seals of a
 * release without MACs are followed by an empty seal, whose MAC covers them.
 * @returns the new head, the late events, the names of all, and whether there may be more;
 * undefined if there was nothing to seal or another process is sealing
 */
export async function sealEvents(
  db: SealDeps,
  now: Date,
): Promise<(Head & { late: string[]; names: string[]; more: boolean }) | undefined> {
  if (!(await needsSeal(db))) return undefined;
  return db.em.transactional(async () => {
    const last = await beginSeal(db);
    const ids = last ? await takeUnsealed(db, BATCH) : [];
    if (!last || (ids.length === 0 && (last.position === 0 || last.mac))) return undefined;
    return { ...(await appendSeal(db, last, now, ids)), more: ids.length === BATCH };
  });
}

/**
 * Age at which an event is late when it is sealed, in ms. Events are sealed within seconds of their
 * commit, and none of our transactions lasts minutes.
 */
const MAX_AGE_MS = 10 * 60_000;

/**
 * Whether an event was too old when it was sealed, by the time in its id or in its row. Either it
 * was inserted with a false date, or the log was not sealed in the meantime.
 */
export function isLate(id: string, event: SealedEvent | undefined, sealedAt: Date): boolean {
  if (!event) return false;
  const inId = Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
  return sealedAt.getTime() - Math.min(inId, event.createdAt.getTime()) > MAX_AGE_MS;
}

/**
 * Appends a seal of events or, within the transaction that drops them, a seal that records the drop
 * of all events below an id.
 */
export async function appendSeal(
  db: SealDeps,
  last: SealHead,
  sealedAt: Date,
  ids: string[],
  droppedBelow: string | null = null,
): Promise<Head & { late: string[]; names: string[] }> {
  const events = await findSealedEvents(db, ids);
  const links = droppedBelow ? [dropLinkOf(last.head, droppedBelow)] : [];
  for (const id of ids)
    links.push(linkOf(links.at(-1) ?? last.head, id, events.get(id)?.digest ?? ""));
  const seal = {
    position: last.position + 1,
    ids,
    links,
    droppedBelow,
    sealedAt,
    head: links.at(-1) ?? last.head,
  };
  const mac = db.cipher.mac(authenticated(seal), MAC_CONTEXT).toString("hex");
  await insertSeal(db, { ...seal, mac });
  const late = ids.filter((id) => isLate(id, events.get(id), sealedAt));
  const names = [...events.values()].map(({ event }) => event);
  return { position: seal.position, hash: seal.head, late, names };
}

/**
 * Locks the chain until the transaction ends.
 * @returns the last seal; undefined if another process holds the lock
 */
export async function beginSeal(db: Db): Promise<SealHead | undefined> {
  if (!(await lockChain(db))) return undefined;
  const genesis = {
    position: 0,
    head: GENESIS,
    droppedBelow: null,
    sealedAt: new Date(0),
    mac: null,
  };
  return (await readLastSeal(db)) ?? genesis;
}

const MAC_CONTEXT = "audit-seal";

/**
 * The text that a seal's MAC authenticates. Its last link depends on every earlier link, so the MAC
 * covers the whole chain up to this seal.
 */
const authenticated = ({ position, head, droppedBelow, sealedAt }: Omit<SealHead, "mac">) =>
  [position, head, droppedBelow ?? "-", sealedAt.toISOString()].join(" ");

/** Whether a seal's MAC was made with one of our secret keys. */
export function isAuthentic(cipher: SealDeps["cipher"], seal: SealHead): boolean {
  return (
    seal.mac !== null &&
    cipher.isMac(authenticated(seal), MAC_CONTEXT, Buffer.from(seal.mac, "hex"))
  );
}

/** Predecessor of the first link. */
export const GENESIS = "0".repeat(64);

/**
 * The link of an event: a hash over the previous link, the event's id and the digest of its row (""
 * if the row no longer existed).
 */
export function linkOf(previous: string, id: string, digest: string): string {
  return hash("sha256", `${previous} ${id} ${digest}`, "hex");
}

/** The link recording that retention has dropped all events below an id. */
export function dropLinkOf(previous: string, droppedBelow: string): string {
  return hash("sha256", `${previous} dropped below ${droppedBelow}`, "hex");
}
