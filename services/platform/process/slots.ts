/** The slots of one holder. */
export type Slots = {
  /** Asks for a slot. `onGranted` is called once it is granted, at once if one is free. */
  request(onGranted: () => void): void;
  /** Returns a granted slot. */
  release(): void;
};

/**
 * A number of slots for work that uses a whole core. Holders that wait take turns, so that many
 * requests of one delay those of another by one slot.
 * @param max number of slots
 */
export function createSlotPool<Holder>(max: number) {
  let free = max;
  const held = new Map<Holder, number>();
  /** Requests by holder, in the order of their turns. */
  const requests = new Map<Holder, (() => void)[]>();

  function grantNext(): void {
    while (free > 0) {
      const [next] = requests;
      if (!next) return;
      const [holder, waiting] = next;
      requests.delete(holder);
      const grant = waiting.shift();
      if (waiting.length > 0) requests.set(holder, waiting); // its next turn is after all others
      free--;
      held.set(holder, (held.get(holder) ?? 0) + 1);
      grant?.();
    }
  }

  return {
    /** Adds a holder. Returns the slots as it uses them, until it is removed. */
    add: (holder: Holder): Slots => {
      held.set(holder, 0);
      return {
        request(onGranted) {
          if (!held.has(holder)) return; // or the slot would never come back
          const waiting = requests.get(holder);
          if (waiting) waiting.push(onGranted);
          else requests.set(holder, [onGranted]);
          grantNext();
        },
        release() {
          const count = held.get(holder) ?? 0;
          if (count === 0) return; // the holder was removed
          held.set(holder, count - 1);
          free++;
          grantNext();
        },
      };
    },
    /** Takes all slots back from a holder that has ended. */
    remove(holder: Holder): void {
      requests.delete(holder);
      free += held.get(holder) ?? 0;
      held.delete(holder);
      grantNext();
    },
  };
}
