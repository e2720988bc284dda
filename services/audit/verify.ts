import { IsolationLevel } from "@mikro-orm/core";
import {
  countEvents,
  digestsOf,
  findSealedTwice,
  findUnrecorded,
  type Head,
  readSeals,
  retentionFloor,
  type Seal,
} from "../store/audit-seals.ts";
import type { Db } from "../store/store.ts";
import { dropLinkOf, GENESIS, linkOf } from "./seal.ts";

/** Seals that are read together; each covers up to 1,000 events. */
const SEALS_AT_ONCE = 10;
/** Most unrecorded events that are named, and most that were sealed twice. */
const MAX_NAMED = 100;

/** Something wrong with an event or a seal. */
export type Finding = {
  kind: "edited" | "deleted" | "inserted" | "sealed-twice" | "seal-missing" | "seal-broken" | "cut-off";
  /** The event. */
  id?: string;
  /** The seal. */
  position?: number;
};

/** What a verification has found. */
export type Verification = {
  head: Head;
  /** Sealed events. */
  events: number;
  /** Sealed events that retention has dropped. */
  dropped: number;
  /** Events that wait to be sealed. */
  unsealed: number;
  findings: Finding[];
};

/** How far the scan has come. `floor`: events below this id may be missing; `previous`: the last link, if it is known. */
type ScanState = Omit<Verification, "unsealed"> & { floor: string; previous: string | undefined };

/**
 * Recomputes the hash chain from the stored events, in one snapshot.
 * @param known a head that was logged before. Shows whether the end of the chain has been cut off since.
 */
export function verifyAudit(db: Db, known?: Head): Promise<Verification> {
  return db.em.transactional(() => verifySnapshot(db, known), { isolationLevel: IsolationLevel.REPEATABLE_READ });
}

async function verifySnapshot(db: Db, known: Head | undefined): Promise<Verification> {
  const scan: ScanState = {
    head: { position: 0, hash: GENESIS },
    events: 0,
    dropped: 0,
    findings: [],
    floor: await retentionFloor(db),
    previous: GENESIS,
  };
  const { findings } = scan;
  let seals = await readSeals(db, undefined, SEALS_AT_ONCE);
  while (seals.length > 0) {
    const ids = seals.flatMap((seal) => seal.ids);
    const digests = await digestsOf(db, ids);
    for (const seal of seals) {
      checkSeal(scan, seal, digests);
      if (known?.position === seal.position && known.hash !== seal.head) {
        findings.push({ kind: "cut-off", position: seal.position });
      }
    }
    seals = await readSeals(db, seals.at(-1)?.rawPosition, SEALS_AT_ONCE);
  }
  if (known && known.position > scan.head.position) findings.push({ kind: "cut-off", position: known.position });
  // an event that is sealed twice is counted twice, which would hide an unrecorded one
  for (const twice of await findSealedTwice(db, MAX_NAMED)) findings.push({ kind: "sealed-twice", ...twice });
  const { events, unsealed } = await countEvents(db);
  if (events !== scan.events + unsealed) {
    for (const id of await findUnrecorded(db, MAX_NAMED)) findings.push({ kind: "inserted", id });
  }
  return { head: scan.head, events: scan.events, dropped: scan.dropped, unsealed, findings };
}

/** Follows the chain through one seal. Each link is recomputed from the stored one before it, so a fault names its event. */
function checkSeal(scan: ScanState, seal: Seal, digests: Map<string, string>): void {
  const { position, ids, links, droppedBelow, head } = seal;
  const { findings } = scan;
  const expected = scan.head.position + 1;
  if (position < expected) return void findings.push({ kind: "seal-broken", position }); // positions begin with 1
  if (position > expected) {
    findings.push({ kind: "seal-missing", position: expected });
    scan.previous = undefined;
  }
  ids.forEach((id, i) => {
    const digest = digests.get(id);
    const previous = i > 0 ? links[i - 1] : scan.previous;
    if (digest !== undefined) scan.events++;
    if (digest === undefined && id < scan.floor) scan.dropped++;
    else if (digest === undefined) findings.push({ kind: "deleted", id, position });
    else if (previous !== undefined && linkOf(previous, id, digest) !== links[i]) {
      findings.push({ kind: "edited", id, position });
    }
  });
  const isIntact =
    ids.length > 0
      ? links.length === ids.length && droppedBelow === undefined
      : isDropSeal(scan.previous, links, droppedBelow);
  if (!isIntact || links.at(-1) !== head) findings.push({ kind: "seal-broken", position });
  scan.previous = head;
  scan.head = { position, hash: head };
}

function isDropSeal(previous: string | undefined, links: string[], droppedBelow: string | undefined): boolean {
  if (!droppedBelow || links.length !== 1) return false;
  return previous === undefined || dropLinkOf(previous, droppedBelow) === links[0];
}
