/**
 * Rows as CSV (RFC 4180). Values that begin like a formula are prefixed with an apostrophe, so
 * that spreadsheets do not evaluate them.
 */
export const csvOf = (rows: string[][]): string =>
  rows
    .map((row) =>
      row
        .map((value) => (/^[=+\-@\t\r]/.test(value) ? `'${value}` : value))
        .map((value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value))
        .join(","),
    )
    .join("\r\n");
