import { type Language, language } from "./language.svelte.ts";

/** Decimals with groups of thousands, such as 10,000.5. */
const GROUPED: Record<Language, RegExp> = {
  en: /^[1-9]\d{0,2}(,\d{3})+(\.\d*)?$/,
  de: /^[1-9]\d{0,2}(\.\d{3})+(,\d*)?$/,
};

/** A decimal of the service, such as 0.5, as it is typed in the language of the page. */
export const typedDecimal = (value: string): string =>
  language() === "de" ? value.replace(".", ",") : value;

/** A decimal as the service reads it, from one that was typed in the language of the page. */
export function readDecimal(typed: string): string {
  const text = typed.trim();
  const group = language() === "de" ? "." : ",";
  const plain = GROUPED[language()].test(text) ? text.replaceAll(group, "") : text;
  return plain.replace(",", ".");
}
