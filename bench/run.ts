/** `npm run bench` runs every benchmark; `npm run bench -- gateway` one of them. Figures are ratios taken in one run. */
const benchmarks = ["gateway", "identity", "ai"];
const chosen = process.argv.slice(2);
for (const name of chosen.length > 0 ? chosen : benchmarks) {
  process.stdout.write(`\n# ${name}\n`);
  await import(`./${name}.ts`);
}
