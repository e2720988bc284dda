import { IsolationLevel } from "@mikro-orm/core";
import { findSealedEvents, type Head, type Seal, type SealedEvent } from "../store/audit-seals.ts";
import {
  countEvents,
  findBelow,
  findSealedTwice,
  findUnrecorded,
  holdMonths,
  readDropSeals,
  readSeals,
} from "../store/audit-verification.ts";
import { dropLinkOf, GENESIS, isAuthentic, isLate, linkOf, type SealDeps } from "./seal.ts";

/** Number of seals read at once; each covers up to 1,000 events. */
const SEALS_AT_ONCE = 10;
/**
 * Maximum number of findings of each kind that are listed by event: unrecorded, sealed twice,
 * restored.
 */
const MAX_NAMED = 100;

/** A problem with an event or a seal. */
export type Finding = {
  kind:
    | ("edited" | "deleted" | "inserted" | "late" | "restored" | "sealed-twice")
    | ("seal-missing" | "seal-broken" | "seal-forged" | "dropped-early" | "cut-off");
  id?: string;
  position?: number;
};

export type Verification = {
  head: Head;
  /** Number of sealed events. */
  events: number;
  /** Number of sealed events that retention has dropped. */
  dropped: number;
  unsealed: number;
  /**
   * The first seal with a MAC of a current key. It covers the seals before it, which may be from
   * earlier releases and keys.
   */
  authenticFrom: number | undefined;
  findings: Finding[];
};

/**
 * What a verification needs. `retentionMs` is `AUDIT_RETENTION`; with 0, nothing may have been
 * dropped.
 */
export type VerifyDeps = SealDeps & { now: Date; retentionMs: number };

/**
 * Progress of the scan. `floor`: events below this id may be missing; `previous`: the last link, if
 * known.
 */
type ScanState = Omit<Verification, "unsealed"> & { floor: string; previous: string | undefined };

/**
 * Recomputes the hash chain from the stored events, in a single snapshot.
 * @param known a head that was logged earlier; shows whether the end of the chain has been cut off
 * since
 */
export function verifyAudit(deps: VerifyDeps, known?: Head): Promise<Verification> {
  const isolationLevel = IsolationLevel.REPEATABLE_READ;
  const verify = async () => {
    await holdMonths(deps);
    return verifySnapshot(deps, known);
  };
  return deps.em.transactional(verify, { isolationLevel });
}

async function verifySnapshot(deps: VerifyDeps, known: Head | undefined): Promise<Verification> {
  const scan: ScanState = {
    head: { position: 0, hash: GENESIS },
    events: 0,
    dropped: 0,
    authenticFrom: undefined,
    findings: [],
    floor: await retentionFloor(deps),
    previous: GENESIS,
  };
  await scanSeals(deps, scan, known);
  checkEnd(scan, known);
  const unsealed = await checkEvents(deps, scan);
  const { head, events, dropped, authenticFrom, findings } = scan;
  return { head, events, dropped, unsealed, authenticFrom, findings };
}

/** Follows the chain through all seals. */
async function scanSeals(deps: VerifyDeps, scan: ScanState, known: Head | undefined) {
  let seals = await readSeals(deps, null, SEALS_AT_ONCE);
  while (seals.length > 0) {
    const ids = seals.flatMap((seal) => seal.ids);
    const events = await findSealedEvents(deps, ids);
    for (const seal of seals) {
      checkSeal(deps, scan, seal, events);
      if (known?.position === seal.position && known.hash !== seal.head)
        scan.findings.push({ kind: "cut-off", position: seal.position });
    }
    seals = await readSeals(deps, seals.at(-1)?.rawPosition ?? null, SEALS_AT_ONCE);
  }
}

/** Checks that the chain reaches the known head, and that some seal has one of our MACs. */
function checkEnd({ head, authenticFrom, findings }: ScanState, known: Head | undefined): void {
  if (known && known.position > head.position)
    findings.push({ kind: "cut-off", position: known.position });
  if (head.position > 0 && !authenticFrom)
    findings.push({ kind: "seal-forged", position: head.position });
}

/**
 * Looks for events that no seal, or more than one, covers.
 * @returns the number of unsealed events
 */
async function checkEvents(deps: VerifyDeps, scan: ScanState): Promise<number> {
  const { findings, floor } = scan;
  const restored = floor ? await findBelow(deps, floor, MAX_NAMED) : [];
  for (const id of restored) findings.push({ kind: "restored", id });
  // an event sealed twice is counted twice, which would hide an unrecorded one
  for (const twice of await findSealedTwice(deps, MAX_NAMED))
    findings.push({ kind: "sealed-twice", ...twice });
  const { events, unsealed } = await countEvents(deps);
  const unrecorded = events === scan.events + unsealed ? [] : await findUnrecorded(deps, MAX_NAMED);
  for (const id of unrecorded) findings.push({ kind: "inserted", id });
  return unsealed;
}

/**
 * Follows the chain through one seal. Each link is recomputed from the stored link before it, so
 * that a fault identifies its event.
 */
function checkSeal(
  deps: VerifyDeps,
  scan: ScanState,
  seal: Seal,
  events: Map<string, SealedEvent>,
): void {
  const { position, head } = seal;
  const { findings } = scan;
  const expected = scan.head.position + 1;
  if (position < expected) return void findings.push({ kind: "seal-broken", position }); // positions start at 1
  if (position > expected) {
    findings.push({ kind: "seal-missing", position: expected });
    scan.previous = undefined;
  }
  const authentic = isAuthentic(deps.cipher, seal);
  const sealFault = faultOfSeal(deps, scan, seal, authentic);
  seal.ids.forEach((id, i) => {
    const event = events.get(id);
    if (event) scan.events++;
    else if (id < scan.floor) scan.dropped++;
    const kind = faultOf(scan, seal, i, event);
    if (kind) findings.push({ kind, id, position });
    else if (!sealFault && isLate(id, event, seal.sealedAt))
      findings.push({ kind: "late", id, position });
  });
  if (sealFault) findings.push({ kind: sealFault, position });
  if (authentic) scan.authenticFrom ??= position;
  scan.previous = head;
  scan.head = { position, hash: head };
}

/** The fault of an event in a seal, if any. */
function faultOf(
  { floor, previous: before }: ScanState,
  { ids, links }: Seal,
  i: number,
  event: SealedEvent | undefined,
): Finding["kind"] | undefined {
  const id = ids[i] as string;
  const previous = i > 0 ? links[i - 1] : before;
  if (!event) return id < floor ? undefined : "deleted";
  const isEdited = previous !== undefined && linkOf(previous, id, event.digest) !== links[i];
  return isEdited ? "edited" : undefined;
}

/** The fault of a seal itself, if any. */
function faultOfSeal(
  deps: VerifyDeps,
  { previous, authenticFrom }: ScanState,
  seal: Seal,
  authentic: boolean,
): Finding["kind"] | undefined {
  if (!isIntact(previous, seal)) return "seal-broken";
  if (!authentic && authenticFrom) return "seal-forged";
  const { droppedBelow, sealedAt } = seal;
  return droppedBelow && !isDue(deps, droppedBelow, sealedAt) ? "dropped-early" : undefined;
}

function isIntact(previous: string | undefined, { ids, links, droppedBelow, head }: Seal): boolean {
  if (links.length !== ids.length + (droppedBelow ? 1 : 0) || (droppedBelow && ids.length > 0))
    return false;
  if (droppedBelow && previous && dropLinkOf(previous, droppedBelow) !== links[0]) return false;
  const last = links.at(-1) ?? previous; // a seal without links repeats the previous head
  return last === undefined || last === head;
}

/** The id below which events may be missing; "" if none may be. */
async function retentionFloor(deps: VerifyDeps): Promise<string> {
  const seals = await readDropSeals(deps);
  const due = seals.filter(({ droppedBelow, sealedAt }) => isDue(deps, droppedBelow, sealedAt));
  // biome-ignore lint/complexity/useMathMinMax: these are strings, which Math.max would make NaN
  return due.reduce((floor, { droppedBelow }) => (droppedBelow > floor ? droppedBelow : floor), "");
}

/**
 * Whether retention was allowed to drop the events below an id at a given time: the id must begin a
 * month, and the month must be old enough.
 */
function isDue({ now, retentionMs }: VerifyDeps, droppedBelow: string, sealedAt: Date): boolean {
  const bound = /^(.{8})-(.{4})-0000-0000-0{12}$/.exec(droppedBelow);
  if (!bound || retentionMs === 0) return false;
  const month = new Date(Number.parseInt(`${bound[1]}${bound[2]}`, 16));
  const startsMonth = month.toISOString().endsWith("-01T00:00:00.000Z");
  return (
    startsMonth && month.getTime() <= Math.min(sealedAt.getTime(), now.getTime()) - retentionMs
  );
}
