import { createContext } from "svelte";

/** The context that a form provides to its fields: their violations. */
export const [getForm, setForm] = createContext<{
  violationOf(name: string): string | undefined;
}>();

/** The values of a form, by field name. */
export type Values = Record<string, string>;
