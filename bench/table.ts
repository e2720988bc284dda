import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { CORES } from "./harness/cores.ts";
import type { Load } from "./harness/http-load.ts";
import { median } from "./harness/statistics.ts";

/** One figure of one program in a row of the table, by round. */
type Figure = { row: string; figure: string; program: string; rounds: number[] };

const figures: Figure[] = [];
/**
 * A row is too noisy to judge if the largest round of its first program exceeds the smallest by
 * this factor.
 */
const TOO_NOISY = 1.5;

/** Adds a figure to the table. Other programs are compared with the first one of the row. */
export function record(row: string, figure: string, program: string, rounds: number[]): void {
  figures.push({ row, figure, program, rounds });
}

/** Adds the loads of a row to the table and prints their medians. */
export function report(row: string, loads: Record<string, Load[]>): void {
  const [base = []] = Object.values(loads);
  process.stdout.write(`\n${row}\n`);
  for (const [program, own] of Object.entries(loads)) {
    const values = (figure: keyof Load) => own.map((each) => each[figure]);
    record(row, "per second", program, values("perSecond"));
    record(row, "CPU µs", program, values("cpuMicros"));
    record(row, "p99 ms", program, values("p99"));
    const share = median(own.map(({ perSecond }, i) => perSecond / (base[i]?.perSecond ?? 1)));
    const cells = [
      `${median(values("perSecond")).toFixed(0).padStart(7)} req/s`,
      `${median(values("cpuMicros")).toFixed(0).padStart(6)} µs CPU`,
      `p99 ${median(values("p99")).toFixed(0).padStart(4)} ms`,
      `share ${share.toFixed(2)}`,
    ];
    process.stdout.write(`  ${program.padEnd(34)} ${cells.join("   ")}\n`);
  }
}

const short = (value: number) =>
  value < 10 ? value.toFixed(2) : value.toFixed(value < 100 ? 1 : 0);

/**
 * Prints all figures as a Markdown table: medians, and the median, minimum and maximum of the
 * ratios to the first program, round by round. Writes the rounds to the file BENCH_JSON.
 */
export function printTable(): void {
  if (figures.length === 0) return;
  const lines = [
    "",
    "| row | figure | program | median | ratio to the first (spread) |",
    "|---|---|---|---:|---:|",
  ];
  const noisy = new Set<string>();
  for (const { row, figure, program, rounds } of figures) {
    const first = figures.find((other) => other.row === row && other.figure === figure) as Figure;
    const ratios = rounds.map((value, i) => value / (first.rounds[i] ?? Number.NaN));
    const spread = `${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`;
    lines.push(`| ${row} | ${figure} | ${program} | ${short(median(rounds))} | ${spread} |`);
    if (Math.max(...first.rounds) > TOO_NOISY * Math.min(...first.rounds))
      noisy.add(`${row}, ${figure}`);
  }
  if (noisy.size > 0)
    lines.push(
      "",
      `Too noisy to judge: the first program itself varies by a factor of more than ${TOO_NOISY}.`,
      ...[...noisy].map((name) => `  ${name}`),
    );
  const machine = `${CORES} × ${cpus()[0]?.model ?? "?"}, Node ${process.version}`;
  process.stdout.write(`${[...lines, "", machine].join("\n")}\n`);
  const { BENCH_JSON } = process.env;
  if (BENCH_JSON)
    writeFileSync(
      BENCH_JSON,
      `${JSON.stringify({ machine, at: new Date(), figures }, undefined, 1)}\n`,
    );
}
