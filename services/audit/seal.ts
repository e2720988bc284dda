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

/** Events in one seal. */
const BATCH = 1_000;

export type SealDeps = Db & { cipher: Pick<Cipher, "mac" | "isMac"> };

/**
 * Seals the next events, in the order of their ids. Writers leave a row in `audit_unsealed`, which
 * becomes visible with their commit: however late that is, the event is in the next batch. After
 * seals of a release without MACs comes an empty one, whose MAC covers them.
 * @returns the new head, the events that were late, and whether there may be more; undefined if
 * there was nothing, or another process is sealing
 */
export async function sealEvents(
  db: SealDeps,
  now: Date,
): Promise<(Head & { late: string[]; more: boolean }) | undefined> {
  if (!(await needsSeal(db))) return undefined;
  return db.em.transactional(async () => {
    const last = await beginSeal(db);
    const ids = last ? await takeUnsealed(db, BATCH) : [];
    if (!last || (ids.length === 0 && (last.position === 0 || last.mac))) return undefined;
    return { ...(await appendSeal(db, last, now, ids)), more: ids.length === BATCH };
  });
}

/**
 * Age from which an event is late at its seal, in ms. Events are sealed within seconds of their
 * commit, and no transaction of ours lasts for minutes.
 */
const MAX_AGE_MS = 10 * 60_000;

/**
 * Whether an event was too old at its seal, by the time in its id or that of its row. It may have
 * been inserted under a false date. Or nothing sealed the log in the meantime.
 */
export function isLate(id: string, event: SealedEvent | undefined, sealedAt: Date): boolean {
  if (!event) return false;
  const inId = Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
  return sealedAt.getTime() - Math.min(inId, event.createdAt.getTime()) > MAX_AGE_MS;
}

/**
 * Appends a seal of events or, in the transaction that drops them, one of the drop of all events
 * below an id.
 */
export async function appendSeal(
  db: SealDeps,
  last: SealHead,
  sealedAt: Date,
  ids: string[],
  droppedBelow: string | null = null,
): Promise<Head & { late: string[] }> {
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
  return { position: seal.position, hash: seal.head, late };
}

/**
 * Locks the chain until the transaction ends.
 * @returns its last seal; undefined while another process holds the lock
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
 * The text of a seal's MAC. Its last link depends on every link before it, so the MAC covers the
 * chain up to here.
 */
const authenticated = ({ position, head, droppedBelow, sealedAt }: Omit<SealHead, "mac">) =>
  [position, head, droppedBelow ?? "-", sealedAt.toISOString()].join(" ");

/** Whether a seal was made with one of our secret keys. */
export function isAuthentic(cipher: SealDeps["cipher"], seal: SealHead): boolean {
  return (
    seal.mac !== null &&
    cipher.isMac(authenticated(seal), MAC_CONTEXT, Buffer.from(seal.mac, "hex"))
  );
}

/** The link before the first one. */
export const GENESIS = "0".repeat(64);

/**
 * The link of an event: over the link before it, its id, and the digest of its row ("" where the
 * row was gone already).
 */
export function linkOf(previous: string, id: string, digest: string): string {
  return hash("sha256", `${previous} ${id} ${digest}`, "hex");
}

/** The link that records that retention has dropped the events below an id. */
export function dropLinkOf(previous: string, droppedBelow: string): string {
  return hash("sha256", `${previous} dropped below ${droppedBelow}`, "hex");
}
