import type { JsonObject } from "@bufbuild/protobuf";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { type ExportRow, readExportList } from "../store/export.ts";

/** Rows of each list per page, so that a page stays well below the largest message. */
const PAGE_SIZES = { sessions: 1_000, auditEvents: 4_000, emails: 1_000, usage: 4_000, usageDays: 1_000 };

/**
 * Exports everything kept about the caller as JSON, each list newest first, without secrets. Who else acted on the account
 * is named, but not from where or why.
 * @param page 1-based; if there is more, the result names the next page as `nextPage`.
 */
export async function exportData(call: SignedInCall, page: number): Promise<JsonObject> {
  const { id } = call.caller.user;
  const further: { nextPage?: number } = {};
  const read = async (list: keyof typeof PAGE_SIZES) => {
    const size = PAGE_SIZES[list];
    const rows = await readExportList(call, list, id, { limit: size + 1, offset: (page - 1) * size });
    if (rows.length > size) further.nextPage = page + 1;
    return rows.slice(0, size).map(toJsonRow);
  };
  await call.ai.usage.flush();
  const lostBefore = new Date(call.clock.now().getTime() - call.ai.longestMs).toISOString();
  const [profile = {}] = await readExportList(call, "profile", id, { limit: 1, offset: 0 });
  const data = {
    exportedAt: call.clock.now().toISOString(),
    profile: toJsonRow(profile),
    sessions: await read("sessions"),
    auditEvents: await read("auditEvents"),
    emails: await read("emails"),
    usage: (await read("usage")).map((row) => failLost(row, lostBefore)),
    usageDays: await read("usageDays"),
  };
  await recordAudit(call, "user.exported", { userId: id, details: { page } });
  return { ...data, ...further };
}

/** A call that is still running after the longest time has lost its process. */
const failLost = (row: JsonObject, lostBefore: string): JsonObject =>
  row.outcome === "running" && String(row.createdAt) < lostBefore ? { ...row, outcome: "failed" } : row;

/** Maps column names to JSON names and times to ISO 8601. Null values are left out. */
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
