import { parseArgs } from "node:util";
import { createLog } from "../../services/platform/telemetry/log.ts";
import { openStore } from "../../services/store/open-store.ts";
import type { PageRequest, Total } from "../../services/store/page.ts";
import type { Store } from "../../services/store/store.ts";
import { type Case, listCases } from "./lists/cases.ts";
import { printPlans } from "./lists/plans.ts";

/**
 * Times the administrators' lists of a seeded database for each filter: the first page, which also
 * counts, pages at a random cursor, and pages by number. `--tenth` names a database with a tenth of
 * the rows, to compare each figure with. `--plans` prints query plans instead.
 */
const { values } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: "string" },
    tenth: { type: "string" },
    samples: { type: "string", default: "200" },
    only: { type: "string", default: "" },
    plans: { type: "boolean", default: false },
  },
});
if (!values.url) throw new Error("--url is missing");
const SAMPLES = Number(values.samples);
const WARM_UP = 30;
/** The last page by number, with 20 rows per page. */
const LAST_PAGE = 500;

const stores: Store[] = [];
for (const url of [values.url, ...(values.tenth ? [values.tenth] : [])]) {
  stores.push(await openStore({ kind: "postgres", url }, createLog("warn")));
}

type Figure = { p50: number; p95: number };

function figureOf(times: number[]): Figure {
  times.sort((a, b) => a - b);
  const at = (share: number) => times[Math.floor(share * (times.length - 1))] ?? 0;
  return { p50: at(0.5), p95: at(0.95) };
}

async function timed(list: Case, request: () => PageRequest): Promise<number[]> {
  const times: number[] = [];
  for (let i = -WARM_UP; i < SAMPLES; i++) {
    const next = request();
    const started = performance.now();
    await list.read(next);
    if (i >= 0) times.push(performance.now() - started);
  }
  return times;
}

/** Times of the first page, of pages by cursor, and of pages by number. */
async function timesOf(list: Case, total: Total, pages: number): Promise<number[][]> {
  return [
    await timed(list, () => ({})),
    await timed(list, () => ({ cursor: list.cursor(total) })),
    await timed(list, () => ({ page: 1 + Math.floor(Math.random() * pages) })),
  ];
}

async function totalOf(list: Case): Promise<Total> {
  const { total, totalEstimated } = await list.read({});
  return { total, ...(totalEstimated && { totalEstimated }) };
}

const formatTotal = ({ total, totalEstimated }: Total) => `${totalEstimated ? "~" : ""}${total}`;
const show = ({ p50, p95 }: Figure) => `${p50.toFixed(1)} / ${p95.toFixed(1)}`;
const compare = (a: Figure, b: Figure) =>
  `${(a.p50 / b.p50).toFixed(1)} / ${(a.p95 / b.p95).toFixed(1)}`;

function line(name: string, rows: string, [figures = [], others]: Figure[][]): void {
  const cells = figures.map((figure, n) => {
    const other = others?.[n];
    return other ? `${show(figure)} (${show(other)}; ×${compare(figure, other)})` : show(figure);
  });
  process.stdout.write(`| ${name} | ${rows} | ${cells.join(" | ")} |\n`);
}

/** Prints a line for each filter and one for all of them together. */
async function compareAll(): Promise<void> {
  process.stdout.write(
    "| list, ms p50 / p95 | rows | first page | by cursor | by number |\n|---|---|---|---|---|\n",
  );
  const [cases = [], tenths] = await Promise.all(stores.map(listCases));
  const all: number[][][] = stores.map(() => [[], [], []]);
  for (const [i, list] of cases.entries()) {
    if (!list.name.startsWith(values.only)) continue;
    const both = [list, ...(tenths?.[i] ? [tenths[i]] : [])];
    const totals = await Promise.all(both.map(totalOf));
    const pages = Math.max(
      1,
      Math.min(...totals.map(({ total }) => Math.ceil(total / 20)), LAST_PAGE),
    );
    const columns = [];
    for (const [n, one] of both.entries()) {
      const times = await timesOf(one, totals[n] as Total, pages);
      for (const [column, own] of times.entries()) all[n]?.[column]?.push(...own);
      columns.push(times.map(figureOf));
    }
    line(list.name, totals.map(formatTotal).join(" / "), columns);
  }
  line(
    "all",
    "",
    all.map((columns) => columns.map(figureOf)),
  );
}

if (values.plans) await printPlans(stores[0] as Store, values.only);
else await compareAll();
await Promise.all(stores.map((store) => store.close()));
