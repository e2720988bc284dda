import { IsolationLevel } from "@mikro-orm/core";
import type { SqlEntityManager } from "@mikro-orm/postgresql";
import { digestsOf, dropLinkOf, GENESIS, type Head, linkOf } from "./chain.ts";

/** Seals that are looked at together; each holds up to 1,000 events. */
const SEALS_AT_ONCE = 10;
/** Events that were never sealed are named up to this number, and those that were sealed twice. */
const MAX_NAMED = 100;

/** One thing that is wrong, about one event or one seal. */
export type Finding = {
  kind: "edited" | "deleted" | "reordered" | "inserted" | "sealed-twice" | "seal-missing" | "seal-broken" | "cut-off";
  /** The event. */
  id?: string;
  /** The seal it stands in. */
  position: number | undefined;
  /** The last one, where several seals in a row are missing. */
  until?: number;
};

/** What a verification has seen. */
export type Verification = {
  head: Head;
  events: number;
  /** Sealed events that retention has dropped. */
  dropped: number;
  /** Events that wait for their seal. */
  unsealed: number;
  findings: Finding[];
};

/** `place` is the position as it is stored, which may be more than a number can tell exactly. */
type Seal = {
  position: number;
  place: string;
  ids: string[];
  links: string[];
  droppedBelow: string | undefined;
  head: string;
};
type Walk = Omit<Verification, "unsealed"> & { floor: string; previous: string | undefined };

/**
 * Recomputes the hash chain from the events as they are now, in one snapshot.
 * @param known a head that the log has shown before: tells whether the end has been cut off since
 */
export function verifyAudit(em: SqlEntityManager, known?: Head): Promise<Verification> {
  return em.transactional(
    async () => {
      const [lowest] = await em.execute<{ floor: string | null }[]>(
        "select max(dropped_below::text) as floor from audit_seals where cardinality(ids) = 0",
      );
      const walk: Walk = {
        head: { position: 0, hash: GENESIS },
        events: 0,
        dropped: 0,
        findings: [],
        floor: lowest?.floor ?? "",
        previous: GENESIS,
      };
      for (let seals = await readSeals(em); seals.length > 0; seals = await readSeals(em, seals.at(-1)?.place)) {
        const digests = await digestsOf(
          em,
          seals.flatMap((seal) => seal.ids),
        );
        for (const seal of seals) {
          checkSeal(walk, seal, digests);
          if (known?.position === seal.position && known.hash !== seal.head) report(walk, "cut-off", seal.position);
        }
      }
      if (known && known.position > walk.head.position) report(walk, "cut-off", known.position);
      await findTwins(em, walk);
      const unsealed = await findStrangers(em, walk);
      const { head, events, dropped, findings } = walk;
      return { head, events, dropped, unsealed, findings };
    },
    { isolationLevel: IsolationLevel.REPEATABLE_READ },
  );
}

async function readSeals(em: SqlEntityManager, after?: string): Promise<Seal[]> {
  const rows = await em.execute<{ position: string; ids: string; links: string; below: string | null; head: string }[]>(
    `select position, array_to_string(ids, ',') as ids, encode(links, 'hex') as links, dropped_below as below,
       encode(head, 'hex') as head
     from audit_seals ${after === undefined ? "" : "where position > ?"} order by position limit ?`,
    [...(after === undefined ? [] : [after]), SEALS_AT_ONCE],
  );
  return rows.map(({ position, ids, links, below, head }) => ({
    position: Number(position),
    place: position,
    ids: ids ? ids.split(",") : [],
    links: links.match(/.{64}/g) ?? [],
    droppedBelow: below ?? undefined,
    head,
  }));
}

/** Follows the chain through one seal: each link is recomputed from the stored one before it, so a fault names its row. */
function checkSeal(walk: Walk, seal: Seal, digests: Map<string, string>): void {
  const { position, ids, links, droppedBelow } = seal;
  const expected = walk.head.position + 1;
  if (position < expected) {
    report(walk, "seal-broken", position); // the first one is 1
    return;
  }
  if (position > expected) {
    const until = position - 1;
    walk.findings.push({ kind: "seal-missing", position: expected, ...(until > expected && { until }) });
    walk.previous = undefined;
  }
  const misfits: number[] = [];
  ids.forEach((id, i) => {
    const digest = digests.get(id);
    const previous = i > 0 ? links[i - 1] : walk.previous;
    if (digest !== undefined) walk.events++;
    if (digest === undefined && id < walk.floor) walk.dropped++;
    else if (digest === undefined) report(walk, "deleted", position, id);
    else if (previous !== undefined && linkOf(previous, id, digest) !== links[i]) misfits.push(i);
  });
  for (const i of misfits) {
    const previous = (i > 0 ? links[i - 1] : walk.previous) as string;
    const fits = (other: number) => linkOf(previous, ids[other] as string, digests.get(ids[other] as string) ?? "");
    const moved = misfits.some((other) => other !== i && fits(other) === links[i]);
    report(walk, moved ? "reordered" : "edited", position, ids[i]);
  }
  const whole =
    ids.length > 0
      ? links.length === ids.length && droppedBelow === undefined
      : dropIsWhole(walk.previous, links, droppedBelow);
  if (!whole || links.at(-1) !== seal.head) report(walk, "seal-broken", position);
  walk.previous = seal.head;
  walk.head = { position, hash: seal.head };
}

function dropIsWhole(previous: string | undefined, links: string[], droppedBelow: string | undefined): boolean {
  if (!droppedBelow || links.length !== 1) return false;
  return previous === undefined || dropLinkOf(previous, droppedBelow) === links[0];
}

/** Finds events that stand in the chain twice: counted twice, each would make room for one past the recorder. */
async function findTwins(em: SqlEntityManager, walk: Walk): Promise<void> {
  const twins = await em.execute<{ id: string; position: string }[]>(
    `select id, max(position) as position from audit_seals, unnest(ids) as id group by id having count(*) > 1
     order by id limit ?`,
    [MAX_NAMED],
  );
  for (const { id, position } of twins) report(walk, "sealed-twice", Number(position), id);
}

/** Finds events that came into the log past its recorder. @returns how many wait for their seal */
async function findStrangers(em: SqlEntityManager, walk: Walk): Promise<number> {
  const [count] = await em.execute<{ events: string; unsealed: string }[]>(
    `select (select count(*) from audit_events) as events,
       (select count(*) from audit_unsealed u join audit_events e on e.id = u.event_id) as unsealed`,
  );
  const unsealed = Number(count?.unsealed);
  if (Number(count?.events) === walk.events + unsealed) return unsealed;
  const strangers = await em.execute<{ id: string }[]>(
    `select id from audit_events except select unnest(ids) from audit_seals except select event_id from audit_unsealed
     limit ?`,
    [MAX_NAMED],
  );
  for (const { id } of strangers) report(walk, "inserted", undefined, id);
  return unsealed;
}

function report(walk: Walk, kind: Finding["kind"], position: number | undefined, id?: string): void {
  walk.findings.push({ kind, position, ...(id && { id }) });
}
