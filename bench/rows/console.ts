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
/** The last so many days. */
const daysTo = (days: number) =>
  `from=${new Date(Date.now() - (days - 1) * DAY_MS).toISOString().slice(0, 10)}T00:00:00Z`;
const PAGES: Record<string, string> = {
  overview: "/admin/overview",
  ...Object.fromEntries(
    ["day", "model", "provider"].map((by) => [
      `usage sums by ${by}, 30 days`,
      `/admin/usage/sums?groupBy=${by}&${daysTo(30)}`,
    ]),
  ),
  ...Object.fromEntries(
    [7, 30, 90].flatMap((days) =>
      [10, 100].map((limit) => [
        `usage sums, top ${limit} users of ${days} days`,
        `/admin/usage/sums?groupBy=user&limit=${limit}&${daysTo(days)}`,
      ]),
    ),
  ),
  "usage sums, top 10 users of 14 days": `/admin/usage/sums?groupBy=user&limit=10&${daysTo(14)}`,
  ...Object.fromEntries(
    ["key", "alias"].map((by) => [
      `usage sums by ${by}, 30 days`,
      `/admin/usage/sums?groupBy=${by}&${daysTo(30)}`,
    ]),
  ),
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
