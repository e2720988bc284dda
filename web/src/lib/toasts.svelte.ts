import type { MessageKey } from "../messages/index.ts";

const SHOWN_MS = 6_000;

/** Short notices, each shown for a few seconds. */
export const toasts = $state<{ id: number; key: MessageKey }[]>([]);

let last = 0;

export function toast(key: MessageKey): void {
  last += 1;
  const id = last;
  toasts.push({ id, key });
  setTimeout(() => {
    const index = toasts.findIndex((each) => each.id === id);
    if (index >= 0) toasts.splice(index, 1);
  }, SHOWN_MS);
}
