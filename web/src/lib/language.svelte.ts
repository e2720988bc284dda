import { type MessageKey, messages } from "../messages/index.ts";

export const LANGUAGES = { en: "English", de: "Deutsch" };
export type Language = keyof typeof LANGUAGES;
const KEY = "gatehouse-language";

const preferred = localStorage.getItem(KEY) ?? navigator.language.slice(0, 2);
const state = $state({ language: (preferred in LANGUAGES ? preferred : "en") as Language });
document.documentElement.lang = state.language;

export const language = () => state.language;

export function setLanguage(chosen: Language): void {
  state.language = chosen;
  localStorage.setItem(KEY, chosen);
  document.documentElement.lang = chosen;
}

/** A message in the language of the page. `{name}` is replaced with the value of that name. */
export function t(key: MessageKey, values: Record<string, string | number> = {}): string {
  const text = messages[key][state.language === "de" ? 1 : 0];
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** Whether the catalogue contains a message. */
export const isMessage = (key: string): key is MessageKey => key in messages;

/**
 * The browser's language, such as en-GB: formats of dates and numbers depend on the
 * country.
 */
const locale = () =>
  navigator.languages.find((each) => each.startsWith(state.language)) ?? state.language;

/** A time, formatted in the given style. */
export function time(
  value: string | Date | undefined,
  style: "date" | "minute" = "minute",
): string {
  if (!value) return "–";
  const options: Intl.DateTimeFormatOptions =
    style === "date" ? { dateStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" };
  return new Intl.DateTimeFormat(locale(), options).format(new Date(value));
}

/** A number, formatted like 12,345. */
export const number = (value: number) => new Intl.NumberFormat(locale()).format(value);
