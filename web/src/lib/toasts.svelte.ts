import type { MessageKey } from "../messages/index.ts";
import { failureOf } from "./failure.ts";
import { t } from "./language.svelte.ts";

const SHOWN_MS = 6_000;

/** Short notices, each shown for a few seconds. */
export const toasts = $state<{ id: number; text: string }[]>([]);

let last = 0;

export const toast = (key: MessageKey): void => show(t(key));

/** Runs the action of a button outside of a form. A failure becomes a notice. */
export async function attempt(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    show(failureOf(thrown).message);
  }
}

function show(text: string): void {
  last += 1;
  const id = last;
  toasts.push({ id, text });
  setTimeout(() => {
    const index = toasts.findIndex((each) => each.id === id);
    if (index >= 0) toasts.splice(index, 1);
  }, SHOWN_MS);
}
