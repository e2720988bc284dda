import { type MessageKey, messages } from "../messages/index.ts";

export const LANGUAGES = { en: "English", de: "Deutsch" };
export type Language = keyof typeof LANGUAGES;
const KEY = "gatehouse-language";

/** Whether the app has a language. */
const isLanguage = (code: string): code is Language => Object.hasOwn(LANGUAGES, code);
const chosen = localStorage.getItem(KEY);
const preferred = chosen ?? navigator.language.slice(0, 2);
const state = $state({ language: isLanguage(preferred) ? preferred : "en" });
/** Whether the user has chosen the language in this browser. */
let isChosen = chosen !== null;
document.documentElement.lang = state.language;

export const language = () => state.language;

export function setLanguage(language: Language): void {
  isChosen = true;
  localStorage.setItem(KEY, language);
  show(language);
}

function show(language: Language): void {
  state.language = language;
  document.documentElement.lang = language;
}

/** The language of e-mails to accounts without a language. */
const UNSET: Language = "en";

/**
 * Reconciles the language of the page with that of the account. A language that was chosen in this
 * browser is stored with the account; otherwise the page changes to the language of the account.
 * @param locale the language of the account, a BCP 47 tag
 * @returns the language to store with the account; undefined if nothing needs to be stored
 */
export function reconcile(locale: string | undefined): Language | undefined {
  const [stored = ""] = (locale ?? UNSET).split("-");
  if (stored === state.language) return undefined;
  if (locale === undefined) return state.language;
  if (isChosen || !isLanguage(stored)) return state.language;
  show(stored);
  return undefined;
}

/**
 * A message in the language of the page. `{name}` is replaced with the value of that name. "E-mail"
 * gets a non-breaking hyphen.
 */
export function t(key: MessageKey, values: Record<string, string | number> = {}): string {
  const text = messages[key][state.language === "de" ? 1 : 0].replace(
    /\b(e)-(?=mail)/gi,
    "$1\u2011",
  );
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** Whether the catalogue contains a message. */
export const isMessage = (key: string): key is MessageKey => key in messages;

/**
 * The browser's locale, such as en-GB, since formats of dates and numbers depend on the country.
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

/** A number, shortened from one million on, like 27.6M. */
export const shortNumber = (value: number) =>
  value < 1_000_000
    ? number(value)
    : new Intl.NumberFormat(state.language, {
        notation: "compact",
        maximumSignificantDigits: 3,
      }).format(value);

/**
 * An amount of money, rounded for reading.
 * @param amount a decimal, as the service returns it
 */
export const money = (amount: string | number, currency: string) =>
  new Intl.NumberFormat(locale(), {
    ...{ style: "currency", currency, currencyDisplay: "narrowSymbol" },
    minimumFractionDigits: 2,
    maximumFractionDigits: placesOf(Number(amount)),
  }).format(Number(amount));

/** Number of decimal places at which similar amounts can be distinguished. */
function placesOf(amount: number): number {
  if (amount >= 0.1) return 2;
  return amount >= 0.001 ? 4 : 6;
}

/** A share from 0 to 1, formatted like 12%. */
export const percent = (share: number) =>
  new Intl.NumberFormat(locale(), { style: "percent" }).format(share);

/** A relative change, such as +4.1% or −12%. */
export const changeText = (change: number) =>
  new Intl.NumberFormat(locale(), {
    style: "percent",
    signDisplay: "exceptZero",
    maximumFractionDigits: Math.abs(change) < 0.1 ? 1 : 0,
  })
    .format(change)
    .replace("-", "\u2212");

/** Several names in one text, such as "Ann, Ben and 2 others". */
export const listText = (names: readonly string[]) =>
  new Intl.ListFormat(locale(), { type: "conjunction" }).format(names);

/** A recent time, such as 21:41, with the date if it is not today. */
export function moment(value: string | Date): string {
  const at = new Date(value);
  const isToday = at.toDateString() === new Date().toDateString();
  const day: Intl.DateTimeFormatOptions = isToday ? {} : { day: "numeric", month: "short" };
  const options = { ...day, hour: "2-digit", minute: "2-digit" } as const;
  return new Intl.DateTimeFormat(locale(), options).format(at);
}

/** A recent day in UTC, such as 27 Nov. */
export const dayText = (at: number) =>
  new Intl.DateTimeFormat(locale(), { day: "numeric", month: "short", timeZone: "UTC" }).format(at);

/** A day in UTC, such as 2026-11-27, formatted like 27 Nov 2026. */
export const utcDate = (day: string) =>
  new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeZone: "UTC" }).format(new Date(day));

/** The time of a day, such as 21:41. */
export const timeOfDay = (at: number) =>
  new Intl.DateTimeFormat(locale(), { timeStyle: "short" }).format(at);

const UNITS = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
] as const;

/** How long ago something was, such as "2 minutes ago" or "just now". */
export function ago(value: string | Date | undefined): string {
  if (!value) return "–";
  const seconds = Math.max(0, Date.now() - new Date(value).getTime()) / 1000; // clocks differ
  const format = new Intl.RelativeTimeFormat(locale(), { numeric: "auto" });
  const [unit, size] = UNITS.find(([, length]) => seconds >= length) ?? [];
  if (!unit || !size) return t("app.now");
  return format.format(-Math.floor(seconds / size), unit);
}
