/** The slots of one holder. */
export type Slots = {
  /** Requests a slot. `onGranted` is called once it is granted, immediately if one is free. */
  request(onGranted: () => void): void;
  /** Returns a granted slot. */
  release(): void;
};

/**
 * Creates a pool of slots for work that uses a whole core. Waiting holders take turns, so that many
 * requests of one holder delay those of another by only one slot.
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
      if (waiting.length > 0) requests.set(holder, waiting); // its next turn comes after all others
      free--;
      held.set(holder, (held.get(holder) ?? 0) + 1);
      grant?.();
    }
  }

  return {
    /**
     * Adds a holder. The returned object requests and releases its slots until the holder is
     * removed.
     */
    add: (holder: Holder): Slots => {
      held.set(holder, 0);
      return {
        request(onGranted) {
          if (!held.has(holder)) return; // otherwise the slot would never be returned
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
