/**
 * Rows as CSV (RFC 4180). A quotation mark in front of what begins like a formula keeps spreadsheets
 * from computing it.
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
