/**
 * Formats a duration, such as 14:59.
 * @param seconds whole seconds
 */
export function clock(seconds: number): string {
  const [hours, minutes, rest] = [
    Math.floor(seconds / 3600),
    Math.floor(seconds / 60) % 60,
    seconds % 60,
  ];
  const parts = hours > 0 ? [hours, minutes, rest] : [minutes, rest];
  return parts.map((part, i) => (i === 0 ? String(part) : String(part).padStart(2, "0"))).join(":");
}

/** Joins facts with dots. If a line breaks between two facts, the dot ends the first line. */
export const inRow = (facts: readonly (string | undefined)[]): string =>
  facts.filter(Boolean).join("\u00a0· ");

/** Saves text as a file. */
export function download(name: string, text: string, type = "text/plain"): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1_000);
}

/** The values that are not empty. */
export const given = <T extends Record<string, string>>(values: T): Partial<T> =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "")) as Partial<T>;
