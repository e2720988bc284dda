/**
 * The pages of the console with the most rows behind them, over HTTP, on a database that `npm run
 * bench -- seed` has filled: with a million users and ten million calls the overview and the sums
 * of usage, with ten million users the search. Slow to seed, so this runs only on request.
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { parseArgs } from "node:util";
import pg from "pg";
import { closeAll } from "../harness/cleanup.ts";
import { startServer } from "../harness/server.ts";
import { isChosen } from "../harness/settings.ts";
import { signIn, signUp } from "../harness/stage.ts";
import { median } from "../harness/statistics.ts";
import { record } from "../table.ts";

const { values } = parseArgs({
  allowPositionals: true,
  options: { url: { type: "string" }, samples: { type: "string", default: "10" } },
});
if (!values.url) throw new Error("--url is missing");
const DAY_MS = 86_400_000;
const EMAIL = "bench-administrator@example.com";
/** From so many days ago to a later day, or to today. */
const days = (first: number, last?: number) => {
  const timeOf = (ago: number) =>
    `${new Date(Date.now() - ago * DAY_MS).toISOString().slice(0, 10)}T00:00:00Z`;
  return `from=${timeOf(first)}${last === undefined ? "" : `&to=${timeOf(last)}`}`;
};
const sums = (by: string, limit: number, span: string) =>
  `/admin/usage/sums?groupBy=${by}&limit=${limit}&${span}`;
/** What the web app offers. */
const PERIODS = [7, 30, 90];
const PAGES: Record<string, string> = {
  ...Object.fromEntries(
    ["24h", "7d", "30d"].map((period) => [
      `overview of ${period}`,
      `/admin/overview?period=${period}`,
    ]),
  ),
  ...Object.fromEntries(
    PERIODS.flatMap((count) =>
      ["day", "model", "provider", "user", "key", "alias"].map((by) => [
        `usage sums by ${by}, ${count} days`,
        sums(by, by === "day" ? 90 : 20, days(count - 1)),
      ]),
    ),
  ),
  ...Object.fromEntries(
    PERIODS.map((count) => [
      `usage sums, top 100 users of ${count} days`,
      sums("user", 100, days(count - 1)),
    ]),
  ),
  "usage sums, top 20 users of today": sums("user", 20, days(0)),
  "usage sums, top 20 users of 14 days": sums("user", 20, days(13)),
  "usage sums, top 20 users of 60 days": sums("user", 20, days(59)),
  "usage sums, top 20 users of a past week": sums("user", 20, days(20, 14)),
  "usage sums, top 20 users of a past month": sums("user", 20, days(58, 28)),
  "usage sums, top 20 keys of a past month": sums("key", 20, days(58, 28)),
  "usage, first page": "/admin/usage",
  "user search, part of a name": "/admin/users?search=sven",
  "user search, an address": "/admin/users?search=tara.12345",
  "user search, nothing found": "/admin/users?search=qqqqqqqq",
};

const database = new pg.Client(values.url);
await database.connect();
const server = await startServer(
  ["gateway/main.ts"],
  {
    DATABASE_URL: values.url,
    DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-bench-")),
    RATE_LIMITS: "off",
    LOG_LEVEL: "warn",
  },
  "all",
);
try {
  await signUp(server, EMAIL).catch(() => {}); // of an earlier run
  await database.query("update users set role = 'admin' where email = $1", [EMAIL]);
  const { accessToken } = await signIn(server, EMAIL);
  const closedAfterMs = await closedMs();
  process.stdout.write(`days that are over: closed after ${Math.round(closedAfterMs / 1000)} s\n`);
  for (const [name, path] of Object.entries(PAGES)) {
    if (!isChosen(name)) continue;
    const times: number[] = [];
    for (let i = 0; i < Number(values.samples); i++) times.push(await msOf(path, accessToken));
    record(name, "ms", "Gatehouse", times);
    process.stdout.write(`${name.padEnd(40)}${median(times).toFixed(1).padStart(9)} ms\n`);
  }
} finally {
  await database.end();
  await closeAll();
}

/** Time until the server has closed the days that are over, in ms. */
async function closedMs(): Promise<number> {
  const began = performance.now();
  const isClosed = async () => {
    const { rows } = await database.query(
      "select 1 from ai_usage_rankings where last_day = (now() at time zone 'UTC')::date - 1",
    );
    return rows.length > 0;
  };
  while (!(await isClosed())) await wait(500);
  return performance.now() - began;
}

/** Time until the whole answer has arrived, in ms. */
async function msOf(path: string, accessToken: string): Promise<number> {
  const began = performance.now();
  const response = await fetch(server.url + path, {
    headers: { authorization: `Bearer ${accessToken}` },
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path} answered ${response.status} ${text}`);
  return performance.now() - began;
}
