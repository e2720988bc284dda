import type { JsonObject } from "@bufbuild/protobuf";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { type ExportList, type ExportRow, readExportList } from "../store/export.ts";

/**
 * Maximum number of rows per list and page, so that a page stays well below the maximum message
 * size.
 */
const PAGE_SIZES = {
  sessions: 1_000,
  auditEvents: 4_000,
  emails: 1_000,
  usage: 4_000,
  usageDays: 1_000,
  apiKeys: 1_000,
  budgets: 1_000,
};

/** More rows than an unpaged list can have. */
const SHORT_LIST = 100;

/**
 * Exports all data stored about the caller as JSON, each list newest first, without secrets. Other
 * users who acted on the account are named, but not from where or why they acted.
 * @param page 1-based; if there are more rows, the result has the next page number as `nextPage`
 */
export async function exportData(call: SessionCall, page: number): Promise<JsonObject> {
  const { id } = call.principal.user;
  await call.ai.usage.flush();
  const now = call.clock.now();
  const lostBefore = new Date(now.getTime() - call.ai.longestMs).toISOString();
  const { currency } = call.ai.catalogue;
  const values = { now, verifyMs: call.config.verifyTokenTtlMs, currency };
  const readAll = async (list: ExportList, limit: number) =>
    (await readExportList(call, list, id, { ...values, limit, offset: 0 })).map(toJsonRow);
  const [profile = {}] = await readAll("profile", 1);
  const [pendingEmail] = await readAll("pendingEmail", 1);
  const passkeys = await readAll("passkeys", SHORT_LIST);
  const identities = await readAll("identities", SHORT_LIST);
  const devices = await readAll("devices", SHORT_LIST);
  const data: JsonObject = {
    exportedAt: now.toISOString(),
    profile,
    ...(pendingEmail && { pendingEmail }),
    ...(passkeys.length > 0 && { passkeys }),
    ...(identities.length > 0 && { identities }),
    ...(devices.length > 0 && { devices }),
    failedAttempts: await readAll("failedAttempts", SHORT_LIST),
    openLinks: await readAll("openLinks", SHORT_LIST),
  };
  for (const [list, size] of Object.entries(PAGE_SIZES) as [ExportList, number][]) {
    const rows = await readExportList(call, list, id, {
      ...values,
      limit: size + 1,
      offset: (page - 1) * size,
    });
    data[list] = rows.slice(0, size).map((row) => failLost(toJsonRow(row), lostBefore));
    if (rows.length > size) data.nextPage = page + 1;
  }
  await recordAudit(call, "user.exported", { userId: id, details: { page } });
  return data;
}

/**
 * An AI call that is still running after the maximum duration has lost its process: it is shown as
 * failed.
 */
const failLost = (row: JsonObject, lostBefore: string): JsonObject =>
  row.outcome === "running" && String(row.createdAt) < lostBefore
    ? { ...row, outcome: "failed" }
    : row;

/** Maps column names to JSON names and times to ISO 8601. Null values are omitted. */
function toJsonRow(row: ExportRow): JsonObject {
  return Object.fromEntries(
    Object.entries(row)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [
        name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
        value instanceof Date ? value.toISOString() : value,
      ]),
  ) as JsonObject;
}
