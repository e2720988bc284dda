import { hash } from "node:crypto";
import type { Cipher } from "../crypto/cipher.ts";
import type { Head, SealHead } from "../store/audit-seals.ts";
import {
  digestsOf,
  insertSeal,
  lockChain,
  needsSeal,
  readLastSeal,
  takeUnsealed,
} from "../store/audit-seals.ts";
import type { Db } from "../store/store.ts";

/** Events in one seal. */
const BATCH = 1_000;

export type SealDeps = Db & { cipher: Pick<Cipher, "mac" | "isMac"> };

/**
 * Seals the next events, in the order of their ids. Writers leave a row in `audit_unsealed`, which
 * becomes visible with their commit: however late that is, the event is in the next batch. After
 * seals of a release without MACs comes an empty one, whose MAC covers them.
 * @returns the new head, and whether there may be more; undefined if there was nothing, or another
 * process is sealing
 */
export async function sealEvents(
  db: SealDeps,
  now: Date,
): Promise<(Head & { more: boolean }) | undefined> {
  if (!(await needsSeal(db))) return undefined;
  return db.em.transactional(async () => {
    const last = await beginSeal(db);
    const ids = last ? await takeUnsealed(db, BATCH) : [];
    if (!last || (ids.length === 0 && (last.position === 0 || last.mac))) return undefined;
    return { ...(await appendSeal(db, last, now, ids)), more: ids.length === BATCH };
  });
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
): Promise<Head> {
  const digests = await digestsOf(db, ids);
  const links = droppedBelow ? [dropLinkOf(last.head, droppedBelow)] : [];
  for (const id of ids) links.push(linkOf(links.at(-1) ?? last.head, id, digests.get(id) ?? ""));
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
  return { position: seal.position, hash: seal.head };
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
