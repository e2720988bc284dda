import type { MessageKey } from "../messages/index.ts";
import { failureOf } from "./failure.ts";
import { t } from "./language.svelte.ts";

const SHOWN_MS = 6_000;

type Toast = { id: number; text: string; undo: (() => void) | undefined };

/** Short notices, each shown for a few seconds. */
export const toasts = $state<Toast[]>([]);

let last = 0;

/** @param undo undoes the action that the notice reports */
export const toast = (key: MessageKey, undo?: () => void): void => show(t(key), undo);

/** Undoes the action that a notice reports. */
export function undoToast(id: number): void {
  const found = toasts.find((each) => each.id === id);
  remove(id);
  found?.undo?.();
}

/** Runs the action of a button outside of a form. Failures are shown as notices. */
export async function attempt(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    show(failureOf(thrown).message);
  }
}

function show(text: string, undo?: () => void): void {
  last += 1;
  const id = last;
  toasts.push({ id, text, undo });
  setTimeout(() => remove(id), SHOWN_MS);
}

function remove(id: number): void {
  const index = toasts.findIndex((each) => each.id === id);
  if (index >= 0) toasts.splice(index, 1);
}
