/** Prints how many argon2id verifications per second the cores of this process can compute. */
import { availableParallelism } from "node:os";
import { hashSync, verify } from "@node-rs/argon2";

const hash = hashSync("Correct-horse-1", { memoryCost: 20_480, timeCost: 2, parallelism: 1 });
const seconds = Number(process.argv[2] ?? 3);
let count = 0;
const started = performance.now();
const work = async () => {
  while (performance.now() - started < seconds * 1000) {
    await verify(hash, "Correct-horse-1");
    count++;
  }
};
await Promise.all(Array.from({ length: availableParallelism() }, work));
process.stdout.write(`${(count * 1000) / (performance.now() - started)}\n`);
