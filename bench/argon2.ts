/** What one core does in argon2id verifications, one after the other: prints how many in a second, round by round. */
import { hashSync, verify } from "@node-rs/argon2";

const hash = hashSync("Correct-horse-1", { memoryCost: 19_456, timeCost: 2, parallelism: 1 });
const seconds = Number(process.argv[2] ?? 3);
let count = 0;
const started = performance.now();
while (performance.now() - started < seconds * 1000) {
  await verify(hash, "Correct-horse-1");
  count++;
}
process.stdout.write(`${(count * 1000) / (performance.now() - started)}\n`);
