/**
 * Ids of the open dialogs, the topmost last. The browser shows a dialog above everything else and
 * makes the rest inert, so what has to be seen and used meanwhile is rendered in the dialog.
 */
export const dialogs = $state<string[]>([]);
