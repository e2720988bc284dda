import type { Message } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ExportUsageRequest } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { invalid } from "../platform/rpc/errors.ts";
import { type DailyUsage, type ListDeps, listUsageOfAll } from "./list-usage.ts";

/** Number of rows that are read at the same time. */
const PART_ROWS = 5_000;
const MAX_PARTS = 10;
const MAX_ROWS = MAX_PARTS * PART_ROWS;

type Value = string | number | undefined;

/** The columns of the table, by the names of the fields. */
const COLUMNS: readonly (readonly [name: string, cellOf: (row: DailyUsage) => Value])[] = [
  ["day", ({ day }) => day],
  ["userId", ({ userId }) => userId],
  ["userName", ({ user }) => user?.name],
  ["userEmail", ({ user }) => user?.email],
  ["apiKeyId", ({ apiKeyId }) => apiKeyId],
  ["alias", ({ alias }) => alias],
  ["provider", ({ provider }) => provider],
  ["model", ({ model }) => model],
  ["calls", ({ calls }) => calls],
  ["inputTokens", ({ inputTokens }) => inputTokens],
  ["cachedInputTokens", ({ cachedInputTokens }) => cachedInputTokens],
  ["outputTokens", ({ outputTokens }) => outputTokens],
  ["reasoningTokens", ({ reasoningTokens }) => reasoningTokens],
  ["estimatedCalls", ({ estimatedCalls }) => estimatedCalls],
  ["cost", ({ cost }) => cost],
  ["currency", ({ currency }) => currency],
  ["unpricedCalls", ({ unpricedCalls }) => unpricedCalls],
];

/**
 * Reads the usage of all users as a table in CSV (RFC 4180), with a header.
 * @throws ServiceError VALIDATION_FAILED, also if there are too many rows
 */
export async function exportUsage(
  call: ListDeps,
  request: Omit<ExportUsageRequest, keyof Message>,
): Promise<string> {
  const to = request.to ?? timestampFromDate(call.clock.now()); // the same for all parts
  let csv = lineOf(COLUMNS.map(([name]) => name));
  for (let page = 1; ; page++) {
    const rows = await listUsageOfAll(call, { ...request, to, page }, PART_ROWS);
    if (page > MAX_PARTS && rows.length > 0)
      throw invalid("from", `must be later: the table would have more than ${MAX_ROWS} rows`);
    for (const row of rows) csv += lineOf(COLUMNS.map(([, cellOf]) => cellOf(row)));
    if (rows.length < PART_ROWS) return csv;
  }
}

const lineOf = (values: readonly Value[]) => `${values.map(csvOf).join(",")}\r\n`;

/**
 * A value in CSV. A quotation mark in front of what begins like a formula keeps spreadsheets from
 * computing it.
 */
function csvOf(value: Value): string {
  const text = String(value ?? "").replace(/^[=+\-@\t\r]/, "'$&");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
