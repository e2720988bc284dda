import { printResults } from "./results.ts";

/** `npm run bench` runs every benchmark; `npm run bench -- gateway` one of them. Programs of a row are measured in turns in one run;
 * a table of all figures ends it. BENCH_ONLY chooses rows by a part of their names, BENCH_JSON names a file for raw results.
 */
const benchmarks = ["gateway", "identity", "ai"];
const chosen = process.argv.slice(2);
for (const name of chosen.length > 0 ? chosen : benchmarks) {
  process.stdout.write(`\n# ${name}\n`);
  await import(`./${name}.ts`);
}
printResults();
