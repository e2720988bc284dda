import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";
import { soon } from "./turns.ts";

/** What all requests of a process share, over all its doors: its memory and its event loop. */
export type Room = {
  /** Takes a request's place; undefined where there is none left. */
  enter(request: Expected): Place | undefined;
  /** Connections that one door may have open: each costs before it asks anything. */
  connections: number;
  /** Runs a job now, or in line where others have kept the process busy. The job may not throw. */
  soon(job: () => void): void;
};

/** Requests that may wait for others for minutes, as AI calls do for their providers; those that are soon over; probes. */
export type Use = "patient" | "brief" | "health";

/** What is known of a request before it is read. */
export type Expected = {
  use: Use;
  /** Size of its answer in bytes, where that counts. */
  answerBytes: number;
};

/** What one request may hold, until it is over. */
export type Place = {
  /**
   * Makes the place fit a body of that size, in bytes. Where there is no room for a large one, those who have been sending
   * theirs the longest give up theirs. @returns false where there is none even so
   * @param giveUp ends the request; absent once the body is there
   */
  fit(bodyBytes: number, giveUp?: () => void): boolean;
  /** Makes it fit what piles up while its reader takes nothing, or no longer. @returns false where there is no room for it */
  pile(isUnread: boolean): boolean;
  /** Gives the place back. */
  leave(): void;
};

const MIB = 1024 * 1024;
/** What a process holds at rest, of the heap and in all, at least: measured, 50 and 100 MB without an embedded database. */
const HEAP_AT_REST = 64 * MIB;
const MEMORY_AT_REST = 128 * MIB;
/** Parts of the rest. What is left of the heap is for garbage; half of the memory is for connections. */
const SHARE_OF_HEAP = 0.6;
const SHARE_OF_MEMORY = 0.5;
/** However little is left: the longest conversation, or the largest answer, still gets in where nobody else is. */
const LEAST_ROOM = 24 * MIB;
/** What a request costs however small it is, and each byte of its body and answer. Measured: 25 to 50 KiB, and 0.7 to 2.3. */
const REQUEST_BYTES = 48 * 1024;
const COST_OF_BYTE = 3;
/** What waits for a reader who takes nothing for the moment, with what comes from the provider meanwhile, in bytes. */
const UNREAD_BYTES = 160 * 1024;
/** What a connection costs that has sent all of its headers but the end. */
const CONNECTION_BYTES = 20 * 1024;

/** Bodies up to this size get in however many large ones there are, in bytes. */
const SMALL_BYTES = 32 * 1024;
/** How far each kind may fill the room, so that the kinds after it still get in. */
const PARTS = { large: 0.3, patient: 0.6, brief: 0.95, health: 1 };

/** Opens a process's room, once everything else is open. @param bytes its size, by default what the process can spare */
export function openRoom(bytes = spareBytes()): Room {
  let taken = 0;
  /** Large bodies that are still arriving, the one that takes longest first: what each would free, and how. */
  const arriving = new Map<Place, { bytes: number; giveUp: () => void }>();
  const freeFor = (newcomer: Place, wanted: number) => {
    const chosen: (() => void)[] = [];
    let missing = wanted;
    for (const [place, { bytes, giveUp }] of arriving) {
      if (missing <= 0 || place === newcomer) break;
      missing -= bytes;
      chosen.push(giveUp);
    }
    if (missing > 0) return false; // nobody gives up anything in vain
    for (const giveUp of chosen) giveUp();
    return true;
  };
  return {
    enter({ use, answerBytes }) {
      let mine = 0;
      const take = (wanted: number, kind: keyof typeof PARTS) => {
        const more = wanted - mine;
        const excess = taken + more - PARTS[kind] * bytes;
        if (more > 0 && excess > 0 && !(kind === "large" && freeFor(place, excess))) return false;
        taken += more;
        mine = wanted;
        return true;
      };
      let body = 0;
      let unread = 0;
      let hasLeft = false;
      const hold = (kind: keyof typeof PARTS) =>
        !hasLeft && take(REQUEST_BYTES + COST_OF_BYTE * (body + Math.max(answerBytes, unread)), kind);
      const place: Place = {
        fit(size, giveUp) {
          body = size;
          const isLarge = size > SMALL_BYTES;
          const fits = hold(isLarge ? "large" : use);
          if (fits && isLarge && giveUp) arriving.set(place, { bytes: COST_OF_BYTE * size, giveUp });
          else arriving.delete(place);
          return fits;
        },
        pile(isUnread) {
          unread = isUnread ? UNREAD_BYTES : 0;
          return hold(use);
        },
        leave() {
          hasLeft = true;
          arriving.delete(place);
          take(0, use);
        },
      };
      return hold(use) ? place : undefined;
    },
    connections: Math.floor(halfOfMemory() / CONNECTION_BYTES),
    soon,
  };
}

const spareBytes = () =>
  Math.max(Math.min((getHeapStatistics().heap_size_limit - HEAP_AT_REST) * SHARE_OF_HEAP, halfOfMemory()), LEAST_ROOM);

const halfOfMemory = () =>
  Math.max((memoryBytes() - Math.max(MEMORY_AT_REST, process.memoryUsage.rss())) * SHARE_OF_MEMORY, LEAST_ROOM);

/** The memory of the machine, or of the container. */
const memoryBytes = () => Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
