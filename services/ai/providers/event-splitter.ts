/**
 * Bytes with which the end of an event may begin before the next part of the body: a line feed and
 * a return.
 */
const OVERLAP = 2;
const [LF, CR] = [0x0a, 0x0d];

/**
 * Splits the bytes of server-sent events into events, which end with a blank line. The parts of an
 * event are searched once and joined once, so the time is linear in its size however it arrives.
 */
export class EventSplitter {
  #parts: Buffer[] = [];
  #length = 0;

  /** Number of bytes of the incomplete event. */
  get heldLength(): number {
    return this.#length;
  }

  /** Returns the events that the next part of the body completes. */
  push(bytes: Buffer): Buffer[] {
    const overlap = this.#lastBytes();
    const from = this.#length - overlap.length;
    const unsearched = overlap.length > 0 ? Buffer.concat([overlap, bytes]) : bytes;
    this.#hold(bytes);
    let end = eventEnd(unsearched, 0);
    if (end === 0) return [];
    end += from;
    const all = this.takeRest();
    const events: Buffer[] = [];
    for (let start = 0; ; end = eventEnd(all, start)) {
      if (end === 0) this.#hold(all.subarray(start));
      if (end === 0) return events;
      events.push(all.subarray(start, end));
      start = end;
    }
  }

  /** Returns the buffered part of the last event. */
  takeRest(): Buffer {
    const [first = Buffer.alloc(0), ...others] = this.#parts;
    const rest = others.length > 0 ? Buffer.concat(this.#parts) : first;
    this.#parts = [];
    this.#length = 0;
    return rest;
  }

  #hold(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#parts.push(bytes);
    this.#length += bytes.length;
  }

  #lastBytes(): Buffer {
    const last = this.#parts.at(-1);
    if (!last) return Buffer.alloc(0);
    if (last.length >= OVERLAP) return last.subarray(-OVERLAP);
    return Buffer.concat(this.#parts.slice(-OVERLAP)).subarray(-OVERLAP);
  }
}

/** Place after the first blank line that follows a line; 0 if there is none. */
function eventEnd(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(LF, from); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at + 1] === LF) return at + 2;
    if (bytes[at + 1] === CR && bytes[at + 2] === LF) return at + 3;
  }
  return 0;
}
