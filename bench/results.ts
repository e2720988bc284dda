import { writeFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";

/** One figure of one program in a row of the table, by round. */
type Figure = { row: string; figure: string; program: string; rounds: number[] };

const figures: Figure[] = [];
/**
 * Beyond this ratio of the largest to the smallest round, what a program costs says more about the
 * machine.
 */
const TOO_NOISY = 1.5;

/** Whether a row is measured: BENCH_ONLY chooses by a part of the names. */
export const isChosen = (row: string): boolean => row.includes(process.env.BENCH_ONLY ?? "");

/** Adds a figure to the table. The first program of a row is what the others are compared with. */
export function record(row: string, figure: string, program: string, rounds: number[]): void {
  figures.push({ row, figure, program, rounds });
}

const middle = (values: number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
const short = (value: number) =>
  value < 10 ? value.toFixed(2) : value.toFixed(value < 100 ? 1 : 0);

/**
 * Prints all figures as a table in Markdown: medians, the median of the ratios to the first program
 * round by round, and the smallest and largest of them. Writes the rounds to BENCH_JSON.
 */
export function printResults(): void {
  if (figures.length === 0) return;
  const lines = [
    "",
    "| row | figure | program | median | to the first (spread) |",
    "|---|---|---|---:|---:|",
  ];
  const noisy = new Set<string>();
  for (const { row, figure, program, rounds } of figures) {
    const first = figures.find((other) => other.row === row && other.figure === figure) as Figure;
    const ratios = rounds.map((value, i) => value / (first.rounds[i] ?? Number.NaN));
    const spread = `${middle(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`;
    lines.push(`| ${row} | ${figure} | ${program} | ${short(middle(rounds))} | ${spread} |`);
    if (Math.max(...first.rounds) > TOO_NOISY * Math.min(...first.rounds))
      noisy.add(`${row}, ${figure}`);
  }
  const verdict = [...noisy].map((name) => `  ${name}`);
  if (noisy.size > 0)
    lines.push(
      "",
      `Too noisy to judge, the first program itself varies by over ${TOO_NOISY}:`,
      ...verdict,
    );
  const machine = `${availableParallelism()} × ${cpus()[0]?.model ?? "?"}, Node ${process.version}`;
  process.stdout.write(`${[...lines, "", machine].join("\n")}\n`);
  const { BENCH_JSON } = process.env;
  if (BENCH_JSON)
    writeFileSync(
      BENCH_JSON,
      `${JSON.stringify({ machine, at: new Date(), figures }, undefined, 1)}\n`,
    );
}
