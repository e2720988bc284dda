import { createContext } from "svelte";

/** What the fields of a form know of it: their violations. */
export const [getForm, setForm] = createContext<{
  violationOf(name: string): string | undefined;
}>();

/** The values of a form by the names of its fields. */
export type Values = Record<string, string>;
