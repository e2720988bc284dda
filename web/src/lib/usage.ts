import type { UsageDay } from "@gatehouse/client";

/** Number of rows of a full page. */
const PAGE_ROWS = 5_000;

/** Reads all pages of a usage report. */
export async function allUsage(load: (page: number) => Promise<UsageDay[]>): Promise<UsageDay[]> {
  const rows: UsageDay[] = [];
  for (let page = 1; rows.length === (page - 1) * PAGE_ROWS; page += 1)
    rows.push(...(await load(page)));
  return rows;
}
