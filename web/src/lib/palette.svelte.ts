import { t } from "./language.svelte.ts";

/** Whether the keyboard is one of Apple. */
export const isApple = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** The keys that open the palette, such as Ctrl K. */
export const paletteKeys = (): string => (isApple ? "⌘K" : `${t("shortcut.ctrl")} K`);

/** State of the palette, which finds pages, people and conversations. */
export const palette = $state({ isOpen: false });

addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.metaKey || event.ctrlKey)) return;
  event.preventDefault();
  palette.isOpen = !palette.isOpen;
});
